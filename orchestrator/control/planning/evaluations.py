"""How often the replicas of every fragment should be evaluated, and their expected input.

Evaluations come as often as the streams bring something. They come more rarely where replicas rest
(`streams.scheduling.batching`): on a node with many replicas, or with slow processors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ha.roles import ReplicaRole
from orchestrator.control.observe.dataflow import Dataflow
from orchestrator.control.observe.measured_load import mean_speed
from orchestrator.control.observe.view import ClusterView
from orchestrator.records import ReplicaId
from streams.scheduling.batching import (
    BELIEVED_US,
    DISPATCH_US,
    IN_TIME_SHARE,
    PATIENCE,
    RECOVERY_LAGS,
    STANDBY_LAGS,
    planned_rest_us,
    wanted_us,
)
from streams.scheduling.cadence import TIMESTAMPS_PER_DISPATCH

REPLICAS = 2
"""Of a fragment."""

NO_DEADLINE_MS = 3_600_000.0
"""An hour: the deadline of a stream that leads to no output, so that nothing can be late."""

MOST_TIMESTAMPS_S = 1000.0
"""Timestamps are milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedEvaluations:
    """How often replicas should evaluate, and their expected input.

    Attributes
    ----------
    inputs
        Fragment → the streams that it reads.
    evaluations_s, standby_evaluations_s
        Fragment → how often its primary should evaluate, and its secondary.
    tuples_s
        Fragment → input tuples a second.
    chunks_s
        Stream → chunks a second.
    """

    inputs: Mapping[str, Collection[str]]
    evaluations_s: Mapping[str, float]
    standby_evaluations_s: Mapping[str, float]
    tuples_s: Mapping[str, float]
    chunks_s: Mapping[str, float]

    def received_s(self, replicas: Collection[str], primaries: Collection[str]) -> dict[str, float]:
        """Chunks a second that other hosts send for each replica of a host.

        A stream that several of them read comes once, and counts for each in equal parts.

        Parameters
        ----------
        replicas
            Fragments of which the host has one.
        primaries
            Those whose primary runs on the host. Their streams need not come from elsewhere.
        """
        readers: dict[str, list[str]] = {}
        for name in replicas:
            for stream in self.inputs[name]:
                if stream not in primaries:
                    readers.setdefault(stream, []).append(name)
        found = dict.fromkeys(replicas, 0.0)
        for stream, names in readers.items():
            for name in names:
                found[name] += self.chunks_s[stream] / len(names)
        return found


def expected_evaluations(
    view: ClusterView,
    flow: Dataflow,
    arrivals_s: Mapping[str, float],
    tuples_s: Mapping[str, float],
    due_ms: Mapping[str, float],
    lags_ms: Mapping[str, float],
) -> ExpectedEvaluations:
    """How often each fragment should be evaluated.

    Parameters
    ----------
    view
        Gives the cluster's settings, where replicas are, and the speed of processors.
    arrivals_s
        Stream from outside → how often something comes, be it only a watermark.
    tuples_s
        Stream → tuples a second.
    due_ms
        Fragment → least end-to-end deadline of the outputs that it leads to.
    lags_ms
        Fragment → how far its secondary may lag.
    """
    batch_ms = view.settings.batch_ms
    entering, beside = _entering_streams(flow), _replicas_beside(view, flow)
    # Admission asks for the room at full load, so hosts are taken to be CPU-starved.
    slowness = max(1 / mean_speed(view.executors.values()), 1.0)

    dispatch_us = _dispatch_us(view)

    def rest_ms(name: str, role: ReplicaRole, patience: int, most_ms: float) -> float:
        wanted = patience * wanted_us(beside[name, role], dispatch_us * slowness)
        most_us = min(max(most_ms, 0.0), NO_DEADLINE_MS) * 1e3
        query = flow.fragments[name].query
        own = view.query_records[query].batching if query in view.query_records else None
        policy = own or view.settings.batching
        return planned_rest_us(policy, wanted, most_us, round(batch_ms * 1e3)) / 1e3

    evaluations_s: dict[str, float] = {}
    standby_evaluations_s: dict[str, float] = {}
    chunks_s = dict(arrivals_s)
    for name, fragment in flow.fragments.items():
        come_s = min(
            # Parts of one stream that are put together again come at the same time.
            sum(arrivals_s[stream] for stream in entering[name]),
            _advances_s(
                [arrivals_s[each] for each in fragment.inputs if each in arrivals_s],
                [evaluations_s[each] for each in fragment.inputs if each in evaluations_s],
                sum(min(tuples_s[s], MOST_TIMESTAMPS_S) + chunks_s[s] for s in fragment.inputs),
            ),
        )
        # Its sub-deadline is taken to be the whole deadline, as it is for a chain on one node.
        most_ms = min(IN_TIME_SHARE * due_ms[name], RECOVERY_LAGS * lags_ms[name])
        rests_ms = rest_ms(name, ReplicaRole.PRIMARY, 1, most_ms)
        evaluations_s[name] = chunks_s[name] = limited(come_s, rests_ms)
        most_ms = STANDBY_LAGS[1] * lags_ms[name]
        rests_ms = rest_ms(name, ReplicaRole.STANDBY, PATIENCE, most_ms)
        standby_evaluations_s[name] = limited(come_s, rests_ms)
    return ExpectedEvaluations(
        inputs={name: each.inputs for name, each in flow.fragments.items()},
        evaluations_s=evaluations_s,
        standby_evaluations_s=standby_evaluations_s,
        tuples_s={n: sum(tuples_s[s] for s in f.inputs) for n, f in flow.fragments.items()},
        chunks_s=chunks_s,
    )


def limited(arrivals_s: float, interval_ms: float) -> float:
    """Input within a batch interval, or within a rest, is evaluated together."""
    return min(arrivals_s, 1e3 / interval_ms) if interval_ms else arrivals_s


def _replicas_beside(view: ClusterView, flow: Dataflow) -> dict[tuple[str, ReplicaRole], float]:
    """Fragment and role → how many replicas the replica's node has, itself among them.

    Nodes are taken to have no fewer than the mean of all, and just that where nothing is placed.
    """
    mean = REPLICAS * len(flow.fragments) / max(len(view.executors), 1)
    there = Counter(
        replica.node for found in view.fragments.values() for replica in found.record.replicas
    )

    def on_node_of(replica: ReplicaId | None) -> float:
        return max(mean, there[replica.node] if replica is not None else 0)

    beside: dict[tuple[str, ReplicaRole], float] = {}
    for name, fragment in flow.fragments.items():
        found = view.fragments.get(fragment.key)
        record = None if found is None else found.record
        beside[name, ReplicaRole.PRIMARY] = on_node_of(record and record.primary)
        beside[name, ReplicaRole.STANDBY] = on_node_of(record and record.secondary)
    return beside


def _entering_streams(flow: Dataflow) -> dict[str, set[str]]:
    """Fragment → the streams from outside from which its stream is made."""
    found: dict[str, set[str]] = {}
    for name, fragment in flow.fragments.items():
        found[name] = set()
        for stream in fragment.inputs:
            found[name] |= found.get(stream, {stream})
    return found


def _advances_s(entering_s: Sequence[float], made_s: Sequence[float], timestamps_s: float) -> float:
    """How often a fragment can be evaluated that reads streams of so many chunks a second.

    It is evaluated only up to the least watermark of all inputs. So the slowest input decides, and
    tuples that have waited for it are evaluated a batch at a time. Of n inputs that are about as
    fast, each may be the last in turn. Output of fragments comes later than streams that enter, so
    such inputs are always the last.

    Parameters
    ----------
    entering_s, made_s
        Of the streams that enter from outside, and of those that fragments make.
    timestamps_s
        Of all of them.
    """
    all_s = [*entering_s, *made_s]
    slowest_s = max(len(all_s) * min(all_s), timestamps_s / TIMESTAMPS_PER_DISPATCH)
    return min(sum(made_s or entering_s), slowest_s)


def _dispatch_us(view: ClusterView) -> float:
    """Processor time of a batch beyond its tuples, at speed 1, as executors have measured it."""
    told = [node.load.dispatch_us for node in view.executors.values() if node.load is not None]
    least_us, most_us = BELIEVED_US
    return min(max(sum(told) / len(told), least_us), most_us) if told else DISPATCH_US
