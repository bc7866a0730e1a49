"""Benchmark `rebalancing`: network usage while latencies, rates and loads drift.

100 nodes and 100 queries, the workload of `reliable_placement`, placed by our planner. Then 20
drifts in a row. In each, one stub of the network in ten gets nearer or farther (the round trips of
its nodes by one factor), the sources of one query in ten get faster or slower, and a tenth of the
nodes gets other work. Ways to answer each drift:

- `never`: what runs stays.
- `ours`: `placement.rebalancing` with its ordinary margins, as `vivace rebalance` has it.
- `eager`: the same with neither hysteresis nor a price of moves. The margins of `ours` cost what it
  is worse than this; that no single change is cheaper costs what this is worse than the next.
- `by_query`: `ours`; then each query is planned anew beside the others, and goes there, with
  however many moves, if that gains more than the hysteresis of one.
- `anew`: all queries are placed again, as if nothing ran. What it saves is what moving can gain;
  nobody pays for its moves.

`<way>.network_ratio` is the mean over drifts of network usage (of primaries, and to secondaries fed
by Active Standby), divided by that of `never` after the same drift. No way minimises that alone:
all weigh it against load, in bytes too. `<way>.cost_ratio` is of the sum of both. The other figures
are means over drifts. Moves are of replicas; two that swap roles are one move and ship nothing.
`moved_bytes` is the state that is shipped, ten seconds of each operator's input. `disturbed_ms` is,
of each primary that moves, one round trip between its old and its new node: for so long its output
waits when roles change over.

`network_only.<way>.<figure>` are figures of the same drifts with load at no price: then all ways
weigh network usage and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.placement_assessment import assess
from bench.placement_methods import OURS
from bench.placement_workload import Workload, paper_workload, vivaldi_positions_ms
from bench.registry import Settings, benchmark
from foundation.arrays import IntArray
from placement.evaluation.cost import TrafficCost, placed_cost
from placement.evaluation.load import Load
from placement.evaluation.single import as_batch
from placement.graph import QueryGraph
from placement.network import NetworkView
from placement.planner import free_points, place_query, plan
from placement.rebalancing.moves import RebalanceSettings
from placement.rebalancing.rebalance import rebalance
from placement.records import Pairs, Request
from placement.settings import Settings as PlannerSettings

DRIFTS = 20
QUICK_DRIFTS = 3
SHARE = 0.1
"""Of stubs, queries and nodes that each drift changes."""

STUB_NODES = 5
LATENCY_SPREAD, RATE_SPREAD = 0.6, 0.7
"""Standard deviation of the logarithm of a factor; what drifts returns to where it began."""

RETURNS = 0.8
"""Share of a factor's logarithm that stays from drift to drift."""

MOST_WORK = 20
"""Operators of others that come to a node."""

STATE_S = 10.0
UNBOUNDED_MS = 1e9
"""Drifts of the network break bounds; those of planning are kept out of the comparison."""

WAYS = ("never", "ours", "eager", "by_query", "anew")
ORDINARY = RebalanceSettings()
EAGER = RebalanceSettings(hysteresis_share=0.0, horizon_s=1e12)

FIGURES = ("network_ratio", "cost_ratio", "moves", "moved_bytes", "disturbed_ms")


@dataclass(slots=True)
class Way:
    """What one way of answering has had to pay so far."""

    pairs: Pairs
    network_ratio: float = 0.0
    cost_ratio: float = 0.0
    moves: int = 0
    moved_bytes: float = 0.0
    disturbed_ms: float = 0.0

    def go(self, pairs: Pairs, requests: Sequence[Request], view: NetworkView) -> None:
        """Have replicas where these say."""
        for request in requests:
            for name in request.graph.to_place:
                before, after = self.pairs[name], pairs[name]
                if before == after:
                    continue
                came = len(set(after) - set(before))
                self.moves += came or 1
                self.moved_bytes += came * STATE_S * request.graph.input_rate(name)
                if before[0] != after[0]:
                    self.disturbed_ms += 2 * view.one_way_ms(before[0], after[0])
        self.pairs = pairs


class Drift:
    """A workload whose figures wander around those that it began with."""

    def __init__(self, workload: Workload, rng: np.random.Generator) -> None:
        self._rng = rng
        self._start = workload
        names = [node.name for node in workload.view.nodes]
        self._index = {name: i for i, name in enumerate(names)}
        self._stub = np.arange(len(names)) // STUB_NODES
        self._nearness = np.zeros(int(self._stub.max()) + 1)
        self._speed = np.zeros(len(workload.requests))
        self._work = np.zeros(len(names), dtype=np.int64)

    def next(self) -> Workload:
        """The workload after one more drift."""
        for logs, spread in ((self._nearness, LATENCY_SPREAD), (self._speed, RATE_SPREAD)):
            drawn = self._drawn(len(logs))
            logs[drawn] = RETURNS * logs[drawn] + self._rng.normal(0, spread, len(drawn))
        drawn = self._drawn(len(self._work))
        self._work[drawn] = self._rng.integers(0, MOST_WORK, len(drawn))
        return Workload(view=self._view(), requests=tuple(self._requests()))

    def _drawn(self, count: int) -> IntArray:
        return self._rng.choice(count, size=max(round(SHARE * count), 1), replace=False)

    def _view(self) -> NetworkView:
        factor = np.exp(self._nearness[self._stub] / 2)
        before = self._start.view
        size = len(before.nodes)
        rtt_ms = np.zeros((size, size))
        for (one, other), ms in before.rtt_ms.items():
            i, j = self._index[one], self._index[other]
            rtt_ms[i, j] = rtt_ms[j, i] = ms * factor[i] * factor[j]
        positions = vivaldi_positions_ms(rtt_ms, self._rng)
        return NetworkView(
            nodes=tuple(
                replace(node, position_ms=positions[i], operators=int(self._work[i]))
                for i, node in enumerate(before.nodes)
            ),
            rtt_ms={
                pair: float(rtt_ms[self._index[pair[0]], self._index[pair[1]]])
                for pair in before.rtt_ms
            },
        )

    def _requests(self) -> list[Request]:
        return [
            request._replace(graph=_faster(request.graph, float(np.exp(self._speed[i]))))
            for i, request in enumerate(self._start.requests)
        ]


def _faster(graph: QueryGraph, factor: float) -> QueryGraph:
    links = tuple(
        replace(link, rate_bytes_s=link.rate_bytes_s * factor, tuples_s=link.tuples_s * factor)
        for link in graph.links
    )
    return QueryGraph(name=graph.name, operators=graph.operators, links=links)


@benchmark("rebalancing")
def rebalancing(settings: Settings) -> Mapping[str, float]:
    """Network usage under drift: never moving, rebalancing, and planning anew."""
    figures = _figures(settings, OURS)
    without = _figures(settings, replace(OURS, operator_load=0.0))
    return figures | {f"network_only.{key}": figure for key, figure in without.items()}


def _figures(settings: Settings, planner: PlannerSettings) -> dict[str, float]:
    drifts = QUICK_DRIFTS if settings.quick else DRIFTS
    ways = _wander(drifts, settings, planner)
    figures = {
        f"{name}.{figure}": getattr(ways[name], figure) / drifts
        for name in WAYS[1:]
        for figure in FIGURES
    }
    for figure in ("network_ratio", "cost_ratio", "moves"):
        key = figure.removesuffix("_ratio")
        for name in WAYS[1:-1]:
            anew = figures[f"anew.{figure}"]
            figures[f"{name}.{key}_vs_anew_ratio"] = figures[f"{name}.{figure}"] / anew
    return figures


def _wander(drifts: int, settings: Settings, planner: PlannerSettings) -> dict[str, Way]:
    rng = np.random.default_rng(0)
    workload = _unbounded(paper_workload(0))
    pairs = _planned(workload, planner)
    ways = {name: Way(pairs) for name in WAYS}
    drift = Drift(workload, rng)
    for number in range(drifts):
        settings.say(f"drift {number + 1} of {drifts}")
        now = drift.next()
        responses = {
            "ours": _rebalanced(ways["ours"].pairs, now, planner, ORDINARY),
            "eager": _rebalanced(ways["eager"].pairs, now, planner, EAGER),
            "by_query": _by_query(
                _rebalanced(ways["by_query"].pairs, now, planner, ORDINARY), now, planner
            ),
            "anew": _planned(now, planner),
        }
        for name, places in responses.items():
            ways[name].go(places, now.requests, now.view)
        network, cost = _costs(ways["never"].pairs, now, planner)
        for way in ways.values():
            own_network, own_cost = _costs(way.pairs, now, planner)
            way.network_ratio += own_network / network
            way.cost_ratio += own_cost / cost
    return ways


def _unbounded(workload: Workload) -> Workload:
    requests = tuple(r._replace(recovery_bound_ms=UNBOUNDED_MS) for r in workload.requests)
    return Workload(view=workload.view, requests=requests)


def _planned(workload: Workload, planner: PlannerSettings) -> Pairs:
    found = plan(workload.requests, workload.view, settings=planner, rng=np.random.default_rng(1))
    return {p.operator: (p.primary, p.secondary) for p in found.placements}


def _rebalanced(
    pairs: Pairs, workload: Workload, planner: PlannerSettings, margins: RebalanceSettings
) -> Pairs:
    state_bytes = {
        name: STATE_S * request.graph.input_rate(name)
        for request in workload.requests
        for name in request.graph.to_place
    }
    return rebalance(
        workload.requests,
        pairs,
        workload.view,
        state_bytes=state_bytes,
        settings=planner,
        rebalancing=replace(margins, max_moves=len(pairs)),
    ).places


def _by_query(pairs: Pairs, workload: Workload, planner: PlannerSettings) -> Pairs:
    view, pairs = workload.view, dict(pairs)
    load = _load(pairs, workload, planner)
    points_ms = free_points(workload.requests, view, planner, ())
    for request, points in zip(workload.requests, points_ms, strict=True):
        graph, traffic = request.graph, TrafficCost(request.graph, view)
        load = load.with_operators(graph, pairs, count=-1)
        found, _ = place_query(request, points, view, load, {}, planner)
        there = {each.operator: (each.primary, each.secondary) for each in found}
        now, then = (
            placed_cost(
                traffic,
                as_batch(
                    graph,
                    view,
                    graph.pinned | {name: places[name][0] for name in graph.to_place},
                    {name: places[name][1] for name in graph.to_place},
                ),
                graph,
                load,
            )
            for places in (pairs, there)
        )
        if now - then > ORDINARY.hysteresis_share * now:
            pairs |= there
        load = load.with_operators(graph, pairs)
    return pairs


def _costs(pairs: Pairs, workload: Workload, planner: PlannerSettings) -> tuple[float, float]:
    """Network usage, and its sum with the price of load, bytes."""
    found = assess(workload.requests, pairs, workload.view, dying_together=False)
    network = float(found.primary_usage.sum() + found.standby_usage.sum())
    return network, network + _load(pairs, workload, planner).total_price_bytes()


def _load(pairs: Pairs, workload: Workload, planner: PlannerSettings) -> Load:
    load = Load(workload.view, operator_load=planner.operator_load, cpu=planner.cpu)
    for request in workload.requests:
        load = load.with_operators(request.graph, pairs)
    return load
