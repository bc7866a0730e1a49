"""A whole placement in figures: what §5 of reliable placement compares methods by.

By query network usage (2), recovery time (1) and whether the bound is kept; by node the number of
operators and the CPU they need; by link the bytes per second.
`placement.evaluation` has the parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

import numpy as np

from bench.standby_schemes import largest_batch, with_batches
from foundation.arrays import BoolArray, FloatArray, IntArray
from placement.evaluation import single
from placement.evaluation.evaluator import Evaluator
from placement.graph import QueryGraph
from placement.network import NetworkView
from placement.records import Pairs, Recovery, Request
from placement.standby_schemes import sent_share

ACK_INTERVAL_MS = 200.0
"""Between two acknowledgements, as in §5."""


class Scheme(Enum):
    """How secondaries are fed; see `bench.standby_schemes`."""

    ACTIVE = auto()
    ADAPTIVE = auto()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assessment:
    """Figures of a placement of q queries on n nodes.

    Attributes
    ----------
    primary_usage, standby_usage
        Network usage (2) of the links between primaries, and of those to secondaries, by query in
        the order given, shape (q,), bytes.
    recovery_ms
        Longest recovery time (1) of each query's operators, shape (q,).
    unprotected
        Operators of each query whose secondary stands on the primary's node and dies with it, shape
        (q,). Recovery times do not consider that.
    bound_kept
        Whether the recovery time is within the query's bound, and no operator is unprotected, shape
        (q,).
    operators
        Replicas of operators by node, pinned ones not counted, shape (n,).
    cores
        CPU that they need, by node, shape (n,).
    link_bytes_s
        Traffic by pair of nodes, in the direction it flows; none within a node.
    """

    primary_usage: FloatArray
    standby_usage: FloatArray
    recovery_ms: FloatArray
    unprotected: IntArray
    bound_kept: BoolArray
    operators: IntArray
    cores: FloatArray
    link_bytes_s: Mapping[tuple[str, str], float]

    @property
    def network_usage(self) -> FloatArray:
        """Of primaries and standbys together, by query, bytes."""
        return self.primary_usage + self.standby_usage


def assess(
    requests: Sequence[Request],
    replicas: Pairs,
    view: NetworkView,
    *,
    scheme: Scheme = Scheme.ACTIVE,
    ack_interval_ms: float = ACK_INTERVAL_MS,
    dying_together: bool = True,
) -> Assessment:
    """Compute the figures.

    Parameters
    ----------
    replicas
        Of every operator to be placed; a secondary may stand on its primary's node here, as
        some baselines have it, and then protects nothing: the query does not keep its bound.
    dying_together
        Whether operators on the node that dies are recovered from each other's secondaries
        (`placement.evaluation.evaluator`), or all upstream primaries are taken to live, as in
        reliable placement.
    """
    operators = np.zeros(len(view.nodes), dtype=np.int64)
    cores = np.zeros(len(view.nodes))
    link_bytes_s: dict[tuple[str, str], float] = {}
    usages: list[tuple[float, float]] = []
    recoveries: list[float] = []
    lost: list[int] = []
    for request in requests:
        graph = request.graph
        primaries = graph.pinned
        primaries |= {name: replicas[name][0] for name in graph.to_place}
        standbys = _standbys(
            request, primaries, replicas, view, scheme, ack_interval_ms, dying_together
        )
        for name in graph.to_place:
            for node in replicas[name]:
                operators[view.index[node]] += 1
                cores[view.index[node]] += graph.cores(name)
        standby_usage = 0.0
        for source, target, bytes_s, is_standby in _streams(
            graph, primaries, standbys, ack_interval_ms
        ):
            if source != target:
                link_bytes_s[source, target] = link_bytes_s.get((source, target), 0.0) + bytes_s
            if is_standby:
                standby_usage += bytes_s * view.one_way_ms(source, target) / 1e3
        usages.append((single.primary_usage(graph, primaries, view), standby_usage))
        lost.append(sum(replicas[name][0] == replicas[name][1] for name in graph.to_place))
        recoveries.append(max((s.recovery.total_ms for s in standbys.values()), default=0.0))
    primary_usage, standby_usage = np.array(usages).reshape(-1, 2).T
    recovery_ms = np.array(recoveries)
    unprotected = np.array(lost, dtype=np.int64)
    bounds_ms = np.array([request.recovery_bound_ms for request in requests])
    return Assessment(
        primary_usage=primary_usage,
        standby_usage=standby_usage,
        recovery_ms=recovery_ms,
        unprotected=unprotected,
        bound_kept=(recovery_ms <= bounds_ms) & (unprotected == 0),
        operators=operators,
        cores=cores,
        link_bytes_s=link_bytes_s,
    )


class _Standby(NamedTuple):
    """A secondary, its recovery, and B."""

    node: str
    recovery: Recovery
    batch_size: int


def _standbys(
    request: Request,
    primaries: Mapping[str, str],
    replicas: Pairs,
    view: NetworkView,
    scheme: Scheme,
    ack_interval_ms: float,
    dying_together: bool,
) -> dict[str, _Standby]:
    """Recovery of every operator; its batches as large as the bound allows if the scheme adapts."""
    graph = request.graph
    evaluator = Evaluator(graph, view.one_way_of)
    secondaries = {name: replicas[name][1] for name in graph.to_place} if dying_together else {}
    batch = single.as_batch(graph, view, primaries, secondaries)
    catch_up_ms = np.zeros(batch.primaries.shape)
    standbys: dict[str, _Standby] = {}
    for name in graph.to_place:
        o, secondary = evaluator.column[name], replicas[name][1]
        at = np.array([view.at(secondary)])
        recovery = Recovery(
            detection_ms=request.detection_ms,
            transfer_ms=float(evaluator.transfer_ms(o, batch, at, catch_up_ms)[0]),
            reprocess_ms=0.0,
        )
        # Others that die with it wait until it has caught up: the slack is theirs as well.
        awaited = dying_together and any(
            primaries[link.target] == primaries[name] for link in graph.outputs[name]
        )
        batch_size = 1
        if scheme is Scheme.ADAPTIVE and not awaited:
            bound_ms = request.recovery_bound_ms
            batch_size = largest_batch(graph, name, recovery, bound_ms, ack_interval_ms)
            recovery = with_batches(graph, name, recovery, batch_size)
        if dying_together:
            catch_up_ms[0, o] = recovery.catch_up_ms
        standbys[name] = _Standby(secondary, recovery, batch_size)
    return standbys


def _streams(
    graph: QueryGraph,
    primaries: Mapping[str, str],
    standbys: Mapping[str, _Standby],
    ack_interval_ms: float,
) -> list[tuple[str, str, float, bool]]:
    """Every stream that flows: from node, to node, bytes/s, whether to a secondary."""
    streams: list[tuple[str, str, float, bool]] = []
    for name in graph.order:
        for link in graph.inputs[name]:
            source = primaries[link.source]
            streams.append((source, primaries[name], link.rate_bytes_s, False))
            if name in standbys:
                standby = standbys[name]
                share = sent_share(link.tuples_s, ack_interval_ms, standby.batch_size)
                streams.append((source, standby.node, link.rate_bytes_s * share, True))
    return streams
