"""Costs, gains and legality of other placements of one query.

Any two placements of a query differ by *steps*, and there are three: the primary goes elsewhere,
the secondary goes elsewhere, or they swap roles. Whatever differs for an operator is reached by at
most a swap and one replica going elsewhere:

====================  =====================  ====================================================
before                after                  steps
====================  =====================  ====================================================
(a, s)                (b, s)                 primary to b
(a, s)                (a, c)                 secondary to c
(a, s)                (s, a)                 swap
(a, s)                (b, a)                 swap, then the primary, now on s, goes to b
(a, s)                (s, c)                 swap, then the secondary, now on a, goes to c
====================  =====================  ====================================================

*Legal* is a placement that keeps failure domains, recovery bound and deadline. Where the network
has broken one of them since the query was placed, a change may not make it worse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from foundation.arrays import BoolArray, FloatArray, IntArray
from placement.evaluation.evaluator import Evaluator, PlacementBatch, tabled
from placement.evaluation.load import LoadDelta
from placement.evaluation.single import as_batch
from placement.network import NetworkView
from placement.rebalancing.moves import MoveKind, Reason, RebalanceSettings
from placement.rebalancing.running import RunningQuery
from placement.settings import Settings

REASONS = tuple(Reason)
"""A *finding* is `LEGAL`, or the position in here of the first reason against a placement."""

LEGAL = -1


class ChangeStep(NamedTuple):
    """Part of a change: an operator's column, and indices of its nodes before and after it."""

    operator: int
    kind: MoveKind
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
        Of the replica that comes to a new node, by operator, shape (f, o). A swap is free.
    moves
        Steps that lead there, shape (f,).
    findings
        Shape (f,), see `REASONS`.
    load_delta
        The load delta on nodes.
    """

    batch: PlacementBatch
    usage_gain: FloatArray
    uncertainty: FloatArray
    price: FloatArray
    bytes_to_ship: FloatArray
    seconds: FloatArray
    moves: IntArray
    findings: IntArray
    load_delta: LoadDelta


class MoveEvaluation:
    """Compares placements of one query with the running one.

    Parameters
    ----------
    running
        The query as it runs.
    nodes
        Indices of the nodes that placements may use, pinned operators' among them.
    state_bytes
        State of each operator; one that is not in there has none.
    settings, rebalancing
        Overhead of a link and batch size; horizon and bandwidth.

    Attributes
    ----------
    base
        The running placement, as a single row.
    usage
        Its network usage and standby traffic, bytes.
    recovery_limits_ms, latency_limit_ms
        The legal recovery time by operator, shape (o,), and latency of the slowest output.
    """

    def __init__(
        self,
        running: RunningQuery,
        view: NetworkView,
        nodes: IntArray,
        state_bytes: Mapping[str, float],
        settings: Settings,
        rebalancing: RebalanceSettings,
    ) -> None:
        request, size = running.request, len(view.nodes)
        graph = request.graph
        self.one_way_of = tabled(nodes, size, view.one_way_between(nodes, nodes))
        self._error_of = tabled(nodes, size, view.uncertainty_between(nodes, nodes))
        self.evaluator = Evaluator(
            graph,
            self.one_way_of,
            hop_overhead_ms=settings.hop_overhead_ms,
            batch_size=settings.batch_size,
        )
        self.base = _as_batch(running, view)
        self.usage = float(self._usage(self.base)[0])
        self._input_bytes_s = np.array([graph.input_rate(name) for name in graph.order])
        self._cores = np.array([graph.cores(name) for name in graph.order])
        self._state_bytes = np.array([state_bytes.get(name, 0.0) for name in graph.order])
        none_ms = (0.0, 0.0)
        self._shares_ms = np.array([running.shares_ms.get(n, none_ms) for n in graph.order])
        self._rebalancing = rebalancing
        self._detection_ms = request.detection_ms
        self._size = size
        self.domains = view.domain_ids
        self.recovery_limits_ms = np.maximum(
            request.recovery_bound_ms, self.recovery_ms(self.base)[0]
        )
        latency_ms = float(self.evaluator.latency_ms(self.base)[0])
        self.latency_limit_ms = max(request.deadline_ms, latency_ms)

    def recovery_ms(self, batch: PlacementBatch) -> FloatArray:
        """Recovery time of every operator, shape (f, o), ms; of pinned ones the detection time."""
        return self._detection_ms + self.evaluator.catch_up_ms(batch)

    def evaluate(self, batch: PlacementBatch) -> EvaluatedMoves:
        """All figures but those of load, which depends on other queries too."""
        changes = _Changes.of(self.base, batch)
        came, target = changes.came, changes.target
        ship_s = self.one_way_of(changes.shipper, target) / 1e3
        bytes_to_ship = np.where(came, self._state_bytes, 0.0)
        seconds = bytes_to_ship / self._rebalancing.bandwidth_bytes_s + ship_s
        price = bytes_to_ship * ship_s + self._input_usage(batch, target) * seconds
        return EvaluatedMoves(
            batch=batch,
            usage_gain=self.usage - self._usage(batch),
            uncertainty=self._uncertainty(batch),
            price=np.where(came, price / self._rebalancing.horizon_s, 0.0),
            bytes_to_ship=bytes_to_ship,
            seconds=np.where(came, seconds, 0.0),
            moves=changes.swapped[:, self.evaluator.placed].sum(axis=1) + came.sum(axis=1),
            findings=self.findings(batch),
            load_delta=self._load_delta(changes),
        )

    def findings(self, batch: PlacementBatch) -> IntArray:
        """The first condition that each placement breaks, shape (f,), see `REASONS`."""
        placed = self.evaluator.placed
        together = self.domains[batch.primaries] == self.domains[batch.secondaries]
        were_together = self.domains[self.base.primaries] == self.domains[self.base.secondaries]
        same_node = batch.primaries == batch.secondaries
        broken = {
            Reason.FAILURE_DOMAIN: ((together & ~were_together) | same_node)[:, placed],
            Reason.RECOVERY_BOUND: self.recovery_ms(batch) > self.recovery_limits_ms,
            Reason.DEADLINE: self.evaluator.latency_ms(batch)[:, None] > self.latency_limit_ms,
        }
        findings = np.full(len(batch.primaries), LEGAL, dtype=np.int64)
        for reason, found in broken.items():
            findings[(findings == LEGAL) & found.any(axis=1)] = REASONS.index(reason)
        return findings

    def steps(self, batch: PlacementBatch, row: int) -> dict[int, tuple[ChangeStep, ...]]:
        """How to get from the running placement to one of the rows, by operator."""
        steps: dict[int, tuple[ChangeStep, ...]] = {}
        for o in self.evaluator.placed:
            before = self._pair(o)
            after = int(batch.primaries[row, o]), int(batch.secondaries[row, o])
            if before == after:
                continue
            path: list[ChangeStep] = []
            if after[0] == before[1] or after[1] == before[0]:
                swapped = before[1], before[0]
                path.append(ChangeStep(o, MoveKind.SWAP, before, swapped))
                before = swapped
            if after != before:
                kind = MoveKind.PRIMARY if after[0] != before[0] else MoveKind.SECONDARY
                path.append(ChangeStep(o, kind, before, after))
            steps[o] = tuple(path)
        return steps

    def _pair(self, o: int) -> tuple[int, int]:
        return int(self.base.primaries[0, o]), int(self.base.secondaries[0, o])

    def _input_usage(self, batch: PlacementBatch, target: IntArray) -> FloatArray:
        """DR·Lat of each operator's inputs to one more replica on its target, (f, o), bytes."""
        total = np.zeros(target.shape)
        for source, o, rate_bytes_s, to_secondary in self.evaluator.streams:
            if not to_secondary:
                delay_ms = self.one_way_of(batch.primaries[:, source], target[:, o])
                total[:, o] += rate_bytes_s * delay_ms / 1e3
        return total

    def _usage(self, batch: PlacementBatch) -> FloatArray:
        return self.evaluator.primary_usage(batch) + self.evaluator.standby_usage(batch)

    def _uncertainty(self, batch: PlacementBatch) -> FloatArray:
        """Σ DR·error of the old and of the new link of every stream that changed, (f,), bytes."""
        total = np.zeros(len(batch.primaries))
        for source, target, rate_bytes_s, to_secondary in self.evaluator.streams:
            ends, base = (
                placements.secondaries if to_secondary else placements.primaries
                for placements in (batch, self.base)
            )
            left, right = batch.primaries[:, source], ends[:, target]
            left_before, right_before = self.base.primaries[:, source], base[:, target]
            changed = (left != left_before) | (right != right_before)
            error_ms = self._error_of(left, right) + self._error_of(left_before, right_before)
            total += np.where(changed, rate_bytes_s * error_ms / 1e3, 0.0)
        return total

    def _load_delta(self, changes: _Changes) -> LoadDelta:
        """Replicas that come and go, summed by row and node."""
        row, operator = np.nonzero(changes.came)
        rows, operators = np.tile(row, 2), np.tile(operator, 2)
        nodes = np.concatenate([changes.target[row, operator], changes.leaver[row, operator]])
        signs = np.repeat((1, -1), len(row))
        left = np.where(changes.primary_leaves[row, operator], 0, 1)
        shares_ms = np.tile(self._shares_ms[operator, left], 2)
        distinct, at = np.unique(rows * self._size + nodes, return_inverse=True)

        def summed(values: FloatArray) -> FloatArray:
            return np.bincount(at, signs * values, minlength=len(distinct)).astype(np.float64)

        return LoadDelta(
            rows=distinct // self._size,
            nodes=distinct % self._size,
            replicas=summed(np.ones(len(rows))).astype(np.int64),
            input_bytes_s=summed(self._input_bytes_s[operators]),
            measured_ms=summed(shares_ms),
            cores=summed(self._cores[operators]),
        )


class _Changes(NamedTuple):
    """How the replicas of each operator differ from the running ones, all of shape (f, o).

    Attributes
    ----------
    swapped, came
        Whether the roles swap; whether a replica comes to a new node.
    target, leaver
        Node that a replica comes to (else the old secondary's) and the one that it leaves.
    shipper
        Node that sends the state.
    primary_leaves
        Whether `leaver` is the old primary's node.
    """

    swapped: BoolArray
    came: BoolArray
    target: IntArray
    leaver: IntArray
    shipper: IntArray
    primary_leaves: BoolArray

    @classmethod
    def of(cls, base: PlacementBatch, batch: PlacementBatch) -> _Changes:
        """The changes against the only placement of `base`."""
        (a, s), (primary, secondary) = base, batch
        swapped = (primary == s) | (secondary == a)
        new_primary = (primary != a) & (primary != s)
        came = new_primary | ((secondary != a) & (secondary != s))
        primary_leaves = (primary != a) & (secondary != a)
        return cls(
            swapped=swapped,
            came=came,
            target=np.where(came, np.where(new_primary, primary, secondary), s),
            leaver=np.where(primary_leaves, a, s),
            shipper=np.where(swapped, s, a),
            primary_leaves=primary_leaves,
        )


def _as_batch(running: RunningQuery, view: NetworkView) -> PlacementBatch:
    """The running placement, as a single row."""
    graph = running.request.graph
    primaries = graph.pinned
    named = {name: view.names(pair) for name, pair in running.places.items()}
    return as_batch(
        graph,
        view,
        primaries | {name: primary for name, (primary, _) in named.items()},
        {name: secondary for name, (_, secondary) in named.items()},
    )
