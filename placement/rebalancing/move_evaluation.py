"""What changing the placement of one query costs, gains and breaks.

Any two placements of a query differ by *steps*, and there are three: the primary goes elsewhere,
the secondary goes elsewhere, or they swap roles. Whatever differs for an operator is reached by at
most a swap and one copy going elsewhere:

====================  =====================  ====================================================
before                after                  steps
====================  =====================  ====================================================
(a, s)                (b, s)                 primary to b
(a, s)                (a, c)                 secondary to c
(a, s)                (s, a)                 swap
(a, s)                (b, a)                 swap, then the primary, now on s, goes to b
(a, s)                (s, c)                 swap, then the secondary, now on a, goes to c
====================  =====================  ====================================================

*What is legal.* Failure domains, recovery bound and deadline hold. Where the network has broken
one of them since the query was placed, a change may not make it worse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placement.network import NetworkView
from placement.rebalancing.batch_evaluation import BatchEvaluation, PlacementBatch
from placement.rebalancing.moves import MovedRole, Reason, RebalanceSettings
from placement.rebalancing.running import LoadDelta, RunningQuery
from topology.arrays import BoolArray, FloatArray, IntArray

REASONS = tuple(Reason)
"""A verdict is −1 for a legal placement or the place of a reason in here."""

LEGAL = -1


class Step(NamedTuple):
    """Part of a change: an operator's places before and after it, as numbers of the trials."""

    operator: int
    role: MovedRole
    before: tuple[int, int]
    after: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EvaluatedMoves:
    """Placements of one query against the one that runs; f placements, o operators.

    Attributes
    ----------
    usage_gain
        By how much network usage and standby traffic fall, shape (f,), bytes.
    uncertainty
        Shape (f,), bytes (`placement.rebalancing.moves`).
    price, bytes_to_ship, seconds
        Of the copy that comes to a new node, by operator, shape (f, o). A swap is free.
    moves
        Steps that lead there, shape (f,).
    verdicts
        Shape (f,), see `REASONS`.
    touches
        What changes on nodes.
    """

    rows: PlacementBatch
    usage_gain: FloatArray
    uncertainty: FloatArray
    price: FloatArray
    bytes_to_ship: FloatArray
    seconds: FloatArray
    moves: IntArray
    findings: IntArray
    load_delta: LoadDelta

    def load_delta_of(self, row: int) -> LoadDelta:
        """The changes of one placement, as row 0."""
        found = self.load_delta.rows == row
        load_delta = self.load_delta
        return LoadDelta(
            rows=np.zeros(np.count_nonzero(found), dtype=np.int64),
            nodes=load_delta.nodes[found],
            replicas=load_delta.replicas[found],
            rate_bytes_s=load_delta.rate_bytes_s[found],
            measured_ms=load_delta.measured_ms[found],
            cores=load_delta.cores[found],
        )


class MoveEvaluation:
    """Weighs changes of one query.

    Parameters
    ----------
    running
        The query as it runs.
    trials
        The query among the nodes that changes may use.
    view
        Tells failure domains, and errors of latencies.
    state_bytes
        State of each operator; none if it is not in there.
    settings
        Horizon and bandwidth.

    Attributes
    ----------
    base
        What runs, as a single row.
    usage
        Its network usage and standby traffic, bytes.
    recovery_limits_ms, path_limit_ms
        What is legal: recovery time by operator, shape (o,), and latency of the slowest output.
    domains
        Failure domain by number of the trials.
    """

    def __init__(
        self,
        running: RunningQuery,
        batch_evaluation: BatchEvaluation,
        view: NetworkView,
        state_bytes: Mapping[str, float],
        settings: RebalanceSettings,
    ) -> None:
        graph = running.request.graph
        self.batch_evaluation = batch_evaluation
        self.base = _as_rows(running, batch_evaluation, view)
        self.usage = float(self._usage(self.base)[0])
        self.input_rates = np.array([graph.input_rate(name) for name in graph.order])
        self._cores = np.array([graph.cores(name) for name in graph.order])
        self._state_bytes = np.array([state_bytes.get(name, 0.0) for name in graph.order])
        none_ms = (0.0, 0.0)
        self._shares_ms = np.array([running.shares_ms.get(n, none_ms) for n in graph.order])
        self._settings = settings
        self._size = len(view.nodes)
        self.domains = view.domain_ids[batch_evaluation.nodes]
        self._errors_ms = view.uncertainty_between(batch_evaluation.nodes, batch_evaluation.nodes)
        request = running.request
        self.recovery_limits_ms = np.maximum(
            request.recovery_bound_ms, batch_evaluation.recovery_ms(self.base)[0]
        )
        self.path_limit_ms = max(request.deadline_ms, float(batch_evaluation.path_ms(self.base)[0]))

    def evaluate(self, rows: PlacementBatch) -> EvaluatedMoves:
        """All there is to say about placements, load aside: that depends on other queries too."""
        shape = rows.primaries.shape
        price, bytes_to_ship, seconds = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        moves = np.zeros(shape[0], dtype=np.int64)
        comings: list[tuple[IntArray, IntArray, IntArray, int, FloatArray]] = []
        for o in self.batch_evaluation.placed:
            swapped, came, newcomer, leaver, share_ms = self._difference(rows, o)
            moves += swapped.astype(np.int64) + came
            a, s = self._pair(o)
            shipper = np.where(swapped, s, a)
            target = np.where(came, newcomer, s)
            ship_s = self.batch_evaluation.latency_ms[shipper, target] / 1e3
            bytes_to_ship[:, o] = np.where(came, self._state_bytes[o], 0.0)
            seconds[:, o] = bytes_to_ship[:, o] / self._settings.bandwidth_bytes_s + ship_s
            seconds[~came, o] = 0.0
            inputs = self._inputs(rows, o, target) * seconds[:, o]
            price[:, o] = (bytes_to_ship[:, o] * ship_s + inputs) / self._settings.horizon_s
            price[~came, o] = 0.0
            at = np.flatnonzero(came)
            comings.append((at, newcomer[at], leaver[at], o, share_ms[at]))
        return EvaluatedMoves(
            rows=rows,
            usage_gain=self.usage - self._usage(rows),
            uncertainty=self.batch_evaluation.changed_usage(rows, self.base, self._errors_ms),
            price=price,
            bytes_to_ship=bytes_to_ship,
            seconds=seconds,
            moves=moves,
            findings=self.findings(rows),
            load_delta=self._load_delta(comings),
        )

    def findings(self, rows: PlacementBatch) -> IntArray:
        """The first thing that each placement breaks, shape (f,), see `REASONS`."""
        placed = self.batch_evaluation.placed
        together = self.domains[rows.primaries] == self.domains[rows.secondaries]
        were_together = self.domains[self.base.primaries] == self.domains[self.base.secondaries]
        same_node = rows.primaries == rows.secondaries
        broken = {
            Reason.FAILURE_DOMAIN: ((together & ~were_together) | same_node)[:, placed],
            Reason.RECOVERY_BOUND: self.batch_evaluation.recovery_ms(rows)
            > self.recovery_limits_ms,
            Reason.DEADLINE: self.batch_evaluation.path_ms(rows)[:, None] > self.path_limit_ms,
        }
        findings = np.full(len(rows.primaries), LEGAL, dtype=np.int64)
        for reason, found in broken.items():
            findings[(findings == LEGAL) & found.any(axis=1)] = REASONS.index(reason)
        return findings

    def steps(self, rows: PlacementBatch, row: int) -> dict[int, tuple[Step, ...]]:
        """How to get from the running placement to one of the rows, by operator."""
        steps: dict[int, tuple[Step, ...]] = {}
        for o in self.batch_evaluation.placed:
            before = self._pair(o)
            after = int(rows.primaries[row, o]), int(rows.secondaries[row, o])
            if before == after:
                continue
            path: list[Step] = []
            if after[0] == before[1] or after[1] == before[0]:
                swapped = before[1], before[0]
                path.append(Step(o, MovedRole.SWAP, before, swapped))
                before = swapped
            if after != before:
                role = MovedRole.PRIMARY if after[0] != before[0] else MovedRole.SECONDARY
                path.append(Step(o, role, before, after))
            steps[o] = tuple(path)
        return steps

    def _pair(self, o: int) -> tuple[int, int]:
        return int(self.base.primaries[0, o]), int(self.base.secondaries[0, o])

    def _difference(
        self, rows: PlacementBatch, o: int
    ) -> tuple[BoolArray, BoolArray, IntArray, IntArray, FloatArray]:
        """Whether roles swap, whether a copy comes to a new node, which, from where, its share."""
        a, s = self._pair(o)
        primary, secondary = rows.primaries[:, o], rows.secondaries[:, o]
        swapped = (primary == s) | (secondary == a)
        new_primary = (primary != a) & (primary != s)
        new_secondary = (secondary != a) & (secondary != s)
        newcomer = np.where(new_primary, primary, secondary)
        leaves_a = (primary != a) & (secondary != a)
        leaver = np.where(leaves_a, a, s)
        primary_ms, secondary_ms = map(float, self._shares_ms[o])
        share_ms = np.where(leaves_a, primary_ms, secondary_ms)
        return swapped, new_primary | new_secondary, newcomer, leaver, share_ms

    def _inputs(self, rows: PlacementBatch, o: int, target: IntArray) -> FloatArray:
        """DR·Lat of the operator's inputs to one more copy, shape (f,), bytes."""
        graph = self.batch_evaluation.request.graph
        total = np.zeros(len(target))
        for link in graph.inputs[graph.order[o]]:
            source = rows.primaries[:, self.batch_evaluation.column[link.source]]
            total += link.rate_bytes_s * self.batch_evaluation.latency_ms[source, target] / 1e3
        return total

    def _usage(self, rows: PlacementBatch) -> FloatArray:
        return self.batch_evaluation.usage(rows) + self.batch_evaluation.standby_usage(rows)

    def _load_delta(
        self, comings: list[tuple[IntArray, IntArray, IntArray, int, FloatArray]]
    ) -> LoadDelta:
        """Comings and goings summed by row and node."""
        if not comings:
            nothing, none = np.zeros(0, dtype=np.int64), np.zeros(0)
            return LoadDelta(nothing, nothing, nothing, none, none, none)
        rows = np.concatenate([at for at, *_ in comings for _ in range(2)])
        local = np.concatenate([ends for _, came, left, *_ in comings for ends in (came, left)])
        signs = np.concatenate([np.repeat((1, -1), len(at)) for at, *_ in comings])
        operators = np.concatenate([np.repeat(o, 2 * len(at)) for at, *_, o, _ in comings])
        shares_ms = np.concatenate([share for *_, share in comings for _ in range(2)])
        keys = rows * self._size + self.batch_evaluation.nodes[local]
        distinct, at = np.unique(keys, return_inverse=True)

        def summed(values: FloatArray) -> FloatArray:
            return np.bincount(at, signs * values, minlength=len(distinct)).astype(np.float64)

        return LoadDelta(
            rows=distinct // self._size,
            nodes=distinct % self._size,
            replicas=summed(np.ones(len(keys))).astype(np.int64),
            rate_bytes_s=summed(self.input_rates[operators]),
            measured_ms=summed(shares_ms),
            cores=summed(self._cores[operators]),
        )


def _as_rows(
    running: RunningQuery, batch_evaluation: BatchEvaluation, view: NetworkView
) -> PlacementBatch:
    """The placement that runs, as a single row."""
    graph = running.request.graph
    primaries = np.zeros((1, len(graph.order)), dtype=np.int64)
    secondaries = np.zeros((1, len(graph.order)), dtype=np.int64)
    for o, name in enumerate(graph.order):
        pinned = graph.by_name[name].pinned
        pair = running.places[name] if pinned is None else (view.index[pinned],) * 2
        primaries[0, o], secondaries[0, o] = batch_evaluation.local(np.array(pair, dtype=np.int64))
    return PlacementBatch(primaries, secondaries)
