"""Planning all queries of a cluster, one after the other, around what runs already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from orchestrator.control.dataflow import Dataflow, Fragment, InvalidQuery
from orchestrator.control.deadlines import (
    LEAST_COST_MS,
    DeadlineTask,
    SubDeadlines,
    best_effort_sub_deadlines,
    chains,
    divide_deadlines,
    work_on,
)
from orchestrator.control.problem import (
    Places,
    detection_ms,
    estimate,
    network_view,
    query_graph,
    rates,
    taken_by,
)
from orchestrator.control.view import ClusterView
from orchestrator.records import NodeKind, QueryRecord, StreamRecord, Timing
from placement.deadline.errors import NoStandby
from placement.deadline.problem import DeadlineProblem
from placement.deadline.recovery import keep_recoverable
from placement.errors import BoundUnattainable
from placement.evaluation.load import Load
from placement.graph import Operator, QueryGraph
from placement.network import NetworkView
from placement.planner import plan
from placement.records import Keep, Plan, Recovery
from placement.secondaries import StandbyTask, place_secondaries
from placement.settings import Settings

NO_LIMIT_MS = 1e9
"""Eleven days: longer than anything that is planned."""

CANDIDATES = 8
"""Nodes near each fragment's point from which the deadline program chooses."""

LAG_SHARE = 0.25
"""Of what a plan leaves of the recovery bound: how far a secondary may lag. The rest is for what
plans do not know: a busy machine, and the other copies that catch up at the same time."""

PLANNING_SEED = 1
"""Relaxation starts at random places; the same start every time makes plans repeatable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenStandby:
    """A secondary and what it promises; `problem` if that is less than was asked for."""

    node: str
    recovery: Recovery
    problem: str | None


class Planning:
    """A planning problem and the places found so far.

    Parameters
    ----------
    view
        Hosts and settings.
    streams, queries, flow
        What is to run: of the store, or with what is about to be applied.
    places
        Where fragments run now.
    timings
        By when what runs must be done.
    """

    def __init__(
        self,
        view: ClusterView,
        streams: Mapping[str, StreamRecord],
        queries: Mapping[str, QueryRecord],
        flow: Dataflow,
        places: Places,
        timings: Mapping[str, Timing],
    ) -> None:
        self._view = view
        self._queries = queries
        self._flow = flow
        self._sites = {name: stream.site for name, stream in streams.items()}
        self._rates = rates(flow, streams, queries, view.settings.batch_ms)
        self.places: dict[str, tuple[str, str | None]] = dict(places)
        self.timings: dict[str, Timing] = dict(timings)

    @property
    def settings(self) -> Settings:
        """The planner's, with the cluster's CPU scaling and batches."""
        cluster = self._view.settings
        return Settings(cpu=cluster.cpu, hop_overhead_ms=cluster.hop_overhead_ms + cluster.batch_ms)

    def graph(self, query: str) -> QueryGraph:
        """The query's graph, with what it reads of other queries pinned where that runs."""
        record = self._queries[query]
        return query_graph(record, self._flow, self._rates, self._sites, self.places, self._queries)

    def network(self, query: str) -> NetworkView:
        """The network, loaded with all other queries."""
        own = {fragment.name for fragment in self._flow.of(query)}
        replicas = Counter(
            node
            for fragment, nodes in self.places.items()
            if fragment not in own
            for node in nodes
            if node is not None
        )
        return network_view(self._view.trusted, replicas)

    def place(self, query: str, *, relaxed: bool = False) -> Plan:
        """Place the fragments of a query that have no place, keep those that have.

        Parameters
        ----------
        relaxed
            Disregard deadline and bound: for a query that runs, late is better than never.

        Raises
        ------
        InvalidQuery
            Its sites are not there, or it reads a query that has no place yet.
        PlacementError
            It cannot be placed.
        """
        record = self._queries[query]
        self._check_ends(record)
        graph, view = self.graph(query), self.network(query)
        running = {
            f.name: self.places[f.name] for f in self._flow.of(query) if f.name in self.places
        }
        found = self._plan(record, graph, view, running, relaxed=relaxed)
        primaries = {placed.operator: placed.primary for placed in found.placements}
        task = self._deadlines(record, view, _candidates(graph, view, found, running), primaries)
        divided = self._divide(record, task, view, primaries, relaxed=relaxed)
        if any(divided.places[name] != node for name, node in primaries.items()):
            # The deadlines need other primaries; secondaries follow them.
            keep: dict[str, tuple[str, str | None]] = {
                name: running.get(name, (divided.places[name], None)) for name in primaries
            }
            found = self._plan(record, graph, view, keep, relaxed=relaxed)
        if not relaxed:
            for name in divided.places.keys() - primaries.keys():
                self._retime(name, task, divided)
        for placed in found.placements:
            self.places[placed.operator] = (placed.primary, placed.secondary)
            spare_ms = record.recovery_bound_ms - placed.recovery_ms
            self._retime(placed.operator, task, divided, spare_ms)
        return found

    def runs(self, query: str) -> bool:
        """Whether all of a query has a place."""
        return all(fragment.name in self.places for fragment in self._flow.of(query))

    def keep(self, query: str) -> Plan:
        """What a query that runs has: places and sub-deadlines stay as they are, kept or not.

        Raises
        ------
        InvalidQuery, PlacementError
            Its sites are not there.
        """
        record = self._queries[query]
        self._check_ends(record)
        running = {fragment.name: self.places[fragment.name] for fragment in self._flow.of(query)}
        found = self._plan(record, self.graph(query), self.network(query), running, relaxed=True)
        (figures,) = found.queries
        asked = replace(
            figures, deadline_ms=_deadline_ms(record), bound_ms=record.recovery_bound_ms
        )
        return replace(found, queries=(asked,))

    def cost_ms(self, fragment: Fragment) -> float:
        """What evaluating the tuples that come at once takes: as measured, else as estimated."""
        burst = taken_by(fragment, self._rates).burst
        measured = self._view.measured_cost(fragment)
        if measured is not None:
            cost_us = measured.fixed_us + measured.per_tuple_us * burst
        else:
            cost_us = estimate(self._queries, fragment).cost_us * burst
        return max(cost_us / 1e3, LEAST_COST_MS)

    def _plan(
        self,
        record: QueryRecord,
        graph: QueryGraph,
        view: NetworkView,
        keep: Keep,
        *,
        relaxed: bool,
    ) -> Plan:
        return plan(
            [
                (
                    graph,
                    NO_LIMIT_MS if relaxed else _deadline_ms(record),
                    NO_LIMIT_MS if relaxed else record.recovery_bound_ms,
                    detection_ms(self._view.settings),
                )
            ],
            view,
            keep=keep,
            settings=self.settings,
            rng=np.random.default_rng(PLANNING_SEED),
        )

    def _deadlines(
        self,
        record: QueryRecord,
        view: NetworkView,
        candidates: Mapping[str, Sequence[str]],
        primaries: dict[str, str],
    ) -> DeadlineTask:
        """The deadlines of a query, and of those that it shares fragments with.

        Parameters
        ----------
        candidates, primaries
            Of the query's fragments: nodes they may take, and those they would.
        """
        connected = self._flow.connected_queries(record.name)
        where = self._sites | {name: nodes[0] for name, nodes in self.places.items()} | primaries
        timed = [f for f in self._flow.fragments.values() if self._is_timed(f, view)]
        divided = [
            f
            for f in self._flow.fragments.values()
            if f.name in primaries
            or (f in timed and f.query in connected and self._has_ends(f, where, view))
        ]
        chosen = {f.name: candidates.get(f.name, [where[f.name]]) for f in divided}

        def stays(one: str, other: str) -> bool:
            return where[one] == where[other]

        def moves_with(one: str, other: str) -> bool:
            return stays(one, other) and set(chosen[one]) == set(chosen[other])

        others = [f for f in timed if f not in divided]
        return DeadlineTask(
            chains=chains(self._flow, divided, self._queries, moves_with),
            queries=self._queries,
            where=where,
            candidates=chosen,
            costs_ms={f.name: self.cost_ms(f) for f in divided},
            rates_bytes_s={stream: rate.bytes_s for stream, rate in self._rates.items()},
            running=work_on(
                chains(self._flow, others, self._queries, stays), self.places, self.timings
            ),
            hop_overhead_ms=self.settings.hop_overhead_ms,
        )

    def _divide(
        self,
        record: QueryRecord,
        task: DeadlineTask,
        view: NetworkView,
        primaries: dict[str, str],
        *,
        relaxed: bool,
    ) -> SubDeadlines:
        problem = task.problem(view)
        places = task.by_operator(
            {name: nodes[0] for name, nodes in self.places.items()} | primaries
        )

        def protect(unprotected: DeadlineProblem) -> DeadlineProblem:
            catch_up_ms = record.recovery_bound_ms - detection_ms(self._view.settings)
            choices = [o.name for o in unprotected.operators if len(o.candidates) > 1]
            domains = {node.name: node.domain or node.name for node in view.hosts}
            try:
                return keep_recoverable(
                    unprotected, domains, dict.fromkeys(choices, catch_up_ms), list(domains)
                )
            except NoStandby:
                # It reckons with the farthest that inputs may come from; they may be nearer.
                return unprotected

        if relaxed:
            return task.divided(best_effort_sub_deadlines(problem, places))
        return task.divided(divide_deadlines(problem, places, protect))

    def _is_timed(self, fragment: Fragment, view: NetworkView) -> bool:
        """Whether a fragment runs, and is due by some time."""
        place = self.places.get(fragment.name)
        return place is not None and place[0] in view.index and fragment.name in self.timings

    def _has_ends(self, fragment: Fragment, where: Mapping[str, str], view: NetworkView) -> bool:
        """Whether all that a fragment reads has a place at present, and so has its sink."""
        ends = [where.get(stream) for stream in fragment.inputs]
        outputs = self._queries[fragment.query].outputs
        if fragment.name in outputs:
            ends.append(outputs[fragment.name])
        return all(node in view.index for node in ends)

    def _retime(
        self,
        fragment: str,
        task: DeadlineTask,
        divided: SubDeadlines,
        spare_ms: float | None = None,
    ) -> None:
        """Note by when a fragment must be done.

        Parameters
        ----------
        spare_ms
            What is left of the recovery bound; None: its secondary stays as it was.
        """
        sub_deadline_ms = divided.sub_deadlines_ms[fragment]
        if spare_ms is None:
            lag_ms = self.timings[fragment].standby_lag_ms
        else:
            lag_ms = _lag_ms(spare_ms, sub_deadline_ms)
        self.timings[fragment] = Timing(
            cost_ms=task.costs_ms[fragment],
            sub_deadline_ms=sub_deadline_ms,
            standby_lag_ms=lag_ms,
        )

    def replace_secondary(self, query: str, fragment: str, prefer: str | None) -> ChosenStandby:
        """Choose a node to stand by for one fragment, everything else staying where it is.

        If no node keeps the bound, the best one is taken all the same: the query runs, and some
        protection is better than none.

        Parameters
        ----------
        prefer
            Node to take if it keeps the bound: one that has the state already.

        Raises
        ------
        InvalidQuery, PlacementError
            There is no node, or the query's ends are not there.
        """
        record = self._queries[query]
        self._check_ends(record)
        for each in self._flow.of(query):
            if each.name not in self.places:
                problem = "runs nowhere at present"
                raise InvalidQuery(query, "statements", each.name, problem, "It will start over.")
        graph, network, settings = self.graph(query), self.network(query), self.settings
        running = {f.name: self.places[f.name] for f in self._flow.of(query)}
        keep = {name: nodes[1] for name, nodes in running.items()} | {fragment: prefer}
        keep = {name: node if network.can_host(node) else None for name, node in keep.items()}
        task = StandbyTask(
            graph=graph,
            view=network,
            primaries={operator.name: self._at(operator) for operator in graph.operators},
            detection_ms=detection_ms(self._view.settings),
            bound_ms=record.recovery_bound_ms,
        )
        load = Load(network, operator_load=settings.operator_load, cpu=settings.cpu).with_replicas(
            nodes[0] for nodes in running.values()
        )
        problem = None
        try:
            found = place_secondaries(task, load, keep)[fragment]
        except BoundUnattainable as error:
            problem = str(error)
            found = place_secondaries(replace(task, bound_ms=NO_LIMIT_MS), load, keep)[fragment]
        self.places[fragment] = (self.places[fragment][0], found.node)
        timing = self.timings[fragment]
        lag_ms = _lag_ms(record.recovery_bound_ms - found.recovery.total_ms, timing.sub_deadline_ms)
        self.timings[fragment] = msgspec.structs.replace(timing, standby_lag_ms=lag_ms)
        return ChosenStandby(node=found.node, recovery=found.recovery, problem=problem)

    def _at(self, operator: Operator) -> str:
        """Where an operator is: pinned there, or its primary."""
        return operator.pinned if operator.pinned is not None else self.places[operator.name][0]

    def _check_ends(self, record: QueryRecord) -> None:
        sites = {n: node for n, node in self._view.hosts.items() if node.kind is NodeKind.SITE}
        wanted = [("outputs", site) for site in record.outputs.values()]
        for fragment in self._flow.of(record.name):
            for stream in fragment.inputs:
                if stream in self._sites:
                    wanted.append((f"statements (stream {stream} enters at)", self._sites[stream]))
                elif (
                    stream not in self.places and self._flow.fragments[stream].query != record.name
                ):
                    raise InvalidQuery(
                        record.name,
                        "statements",
                        stream,
                        "is made by a query that has no place yet",
                        f"It waits for query {self._flow.fragments[stream].query}.",
                    )
        for field, site in wanted:
            if site not in sites or sites[site].coordinate is None:
                problem = "is not a live site" if site not in sites else "has no coordinate yet"
                known = f"Live sites: {', '.join(sorted(sites)) or 'none'}."
                raise InvalidQuery(record.name, field, site, problem, known)


def _deadline_ms(record: QueryRecord) -> float:
    """The latest of a query's deadlines: no output may be later than that."""
    return max(map(record.deadline_of, record.outputs))


def _lag_ms(spare_ms: float, sub_deadline_ms: float) -> float:
    """How far a secondary may lag.

    What has come while it lagged is processed when its primary dies, which takes no longer than it
    came in. A secondary that breaks the bound anyway is worked on as a primary would be.
    """
    return LAG_SHARE * spare_ms if spare_ms > 0 else sub_deadline_ms


def _candidates(
    graph: QueryGraph, view: NetworkView, found: Plan, running: Keep
) -> dict[str, list[str]]:
    """Nodes that the deadline program chooses from, by fragment: where relaxation puts the query's
    fragments, and where they are placed."""
    chosen = {placed.operator: placed.primary for placed in found.placements}
    cpu_ms = np.zeros(len(view.nodes))
    near = {
        node
        for placed in found.placements
        for node in view.names(view.nearest(np.array(placed.point_ms), cpu_ms, CANDIDATES))
    }
    candidates: dict[str, list[str]] = {}
    for name, node in chosen.items():
        allowed = graph.by_name[name].allowed
        others = filter(view.can_host, allowed) if allowed else sorted(near)
        candidates[name] = [node] if name in running else list(dict.fromkeys([node, *others]))
    return candidates


def order(flow: Dataflow, queries: Iterable[str]) -> list[str]:
    """Queries, those that others read first; ties by name.

    Queries that read each other keep their order by name; the planner will refuse them.
    """
    left = sorted(queries)
    ordered: list[str] = []
    while left:
        ready = [q for q in left if not (flow.upstream_queries(q) - {q}) & set(left)]
        ordered += ready or left
        left = [q for q in left if q not in ordered]
    return ordered


def living_timings(view: ClusterView) -> dict[str, Timing]:
    """By when what runs must be done, by fragment."""
    return {found.record.fragment: found.record.timing for found in view.fragments.values()}


def living_places(view: ClusterView) -> dict[str, tuple[str, str | None]]:
    """Nodes of what runs, by fragment: live copies only, the secondary standing in for a primary
    that is gone, as it will."""
    places: dict[str, tuple[str, str | None]] = {}
    for found in view.fragments.values():
        record = found.record
        replicas = [
            c for c in (record.primary, record.secondary) if c is not None and view.alive(c)
        ]
        if replicas:
            second = replicas[1].node if len(replicas) > 1 else None
            places[record.fragment] = (replicas[0].node, second)
    return places


def merged(plans: Sequence[Plan]) -> Plan:
    """Several plans as one."""
    return Plan(
        placements=tuple(placed for each in plans for placed in each.placements),
        queries=tuple(figures for each in plans for figures in each.queries),
    )
