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

*Legal* is a placement that keeps failure domains, recovery bound and deadline, with its primaries
on nodes that they may take. Where the network has broken one of them since the query was placed, a
change may not make it worse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from foundation.arrays import BoolArray, FloatArray, IntArray
from placement.evaluation.cost import StreamEnd, TrafficCost
from placement.evaluation.evaluator import Evaluator, PlacementBatch, stacked, tabled
from placement.evaluation.load import Load, LoadDelta
from placement.network import TABLED, NetworkView
from placement.rebalancing.moves import MoveKind, Obstacle, Reason, RebalanceSettings
from placement.rebalancing.running import RunningQuery
from placement.settings import Settings

REASONS = tuple(Reason)
"""A *finding* is `LEGAL`, or the position in here of the first reason against a placement."""

LEGAL = -1

ORDERS_TRIED = 64
"""Placements on the way that are looked beyond before a change counts as having no legal order.
Changes have few moves, and nearly always the first order is legal."""


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
        By how much the cost of traffic falls, shape (f,), bytes.
    uncertainty
        Shape (f,), bytes (`placement.rebalancing.moves`).
    price, bytes_to_ship, seconds
        Of the replica that comes to a new node, by operator, shape (f, o). A swap is free.
    moves
        Steps that lead there, shape (f,).
    recovery_ms, latency_ms
        Of every operator, shape (f, o), and of the slowest output, shape (f,).
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
    recovery_ms: FloatArray
    latency_ms: FloatArray
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
        Overhead and price of a link, and batch size; horizon and bandwidth.

    Attributes
    ----------
    base
        The running placement, as a single row.
    traffic
        Prices the streams.
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
        self.one_way_of = (
            view.one_way_of
            if size <= TABLED
            else tabled(nodes, size, view.one_way_between(nodes, nodes))
        )
        self.evaluator = Evaluator(
            graph,
            self.one_way_of,
            hop_overhead_ms=settings.hop_overhead_ms,
            batch_size=settings.batch_size,
        )
        self.traffic = TrafficCost(
            graph,
            view,
            self.one_way_of,
            crossing_ms=settings.crossing_ms,
            standbys=running.standbys,
            readers=running.readers,
        )
        self._view = view
        self._request = request
        self._allowed = {
            o: np.array([node.name in allowed for node in view.nodes])
            for o, name in enumerate(graph.order)
            if (allowed := graph.by_name[name].allowed)
        }
        self._rate_bytes_s = graph.mean_input_rate
        self._cores = np.array([graph.cores(name) for name in graph.order])
        self._state_bytes = np.array([state_bytes.get(name, 0.0) for name in graph.order])
        self._rebalancing = rebalancing
        self._detection_ms = request.detection_ms
        self._size = size
        self.domains = view.domains
        self.base = running.as_batch(view)
        self._usage = [float(self.traffic.of(self.base, [s])[0]) for s in self.traffic.streams]
        self._shares_ms = np.array([running.shares_of(name) for name in graph.order])
        self.recovery_limits_ms = np.maximum(
            request.recovery_bound_ms, self.recovery_ms(self.base)[0]
        )
        latency_ms = float(self.evaluator.latency_ms(self.base)[0])
        self.latency_limit_ms = max(request.deadline_ms, latency_ms)

    def start_from(self, running: RunningQuery, group: Sequence[str]) -> None:
        """Compare with other places of these operators from now on; limits stay as they are."""
        self.base = running.as_batch(self._view)
        for i in self._touched([self.evaluator.column[name] for name in group]):
            self._usage[i] = float(self.traffic.of(self.base, [self.traffic.streams[i]])[0])
        self._shares_ms = np.array([running.shares_of(n) for n in self._request.graph.order])

    @property
    def usage(self) -> float:
        """Cost of the streams in the running placement, bytes."""
        return sum(self._usage)

    def hysteresis(self, axis_ms: FloatArray) -> float:
        """What each move has to gain in any case, by the CPU axis of nodes, bytes."""
        placed = self.evaluator.placed
        replicas = self.base.primaries[0, placed], self.base.secondaries[0, placed]
        paid = sum(self._rate_bytes_s * float(axis_ms[nodes].sum()) for nodes in replicas)
        share = self._rebalancing.hysteresis_share * (self.usage + paid / 1e3)
        return max(share, self._rebalancing.hysteresis_bytes)

    def margins(self, evaluated: EvaluatedMoves, axis_ms: FloatArray) -> FloatArray:
        """What the gain of each placement has to exceed: price, uncertainty and hysteresis, bytes,
        shape (f,)."""
        hysteresis = evaluated.moves * self.hysteresis(axis_ms)
        return evaluated.price.sum(axis=1) + evaluated.uncertainty + hysteresis

    def _touched(self, columns: Sequence[int]) -> list[int]:
        """Positions of the streams to and from replicas of some operators."""
        return [i for i, each in enumerate(self.traffic.streams) if each.touches(columns)]

    def recovery_ms(self, batch: PlacementBatch) -> FloatArray:
        """Recovery time of every operator, shape (f, o), ms; of pinned ones the detection time."""
        return self._detection_ms + self.evaluator.catch_up_ms(batch)

    def usage_gain(self, batch: PlacementBatch, columns: Sequence[int]) -> FloatArray:
        """By how much the cost of traffic falls if only these operators differ, (f,), bytes."""
        touched = self._touched(columns)
        streams = [self.traffic.streams[i] for i in touched]
        return sum(self._usage[i] for i in touched) - self.traffic.of(batch, streams)

    def load_change(self, batch: PlacementBatch, load: Load) -> FloatArray:
        """By how much each placement would change the price of all load, (f,), bytes."""
        return load.price_change(self.load_delta(batch), len(batch.primaries))

    def load_delta(self, batch: PlacementBatch) -> LoadDelta:
        """The load delta on nodes."""
        return self._load_delta(_Changes.of(self.base, batch))

    def evaluate(
        self, batch: PlacementBatch, usage_gain: FloatArray | None = None
    ) -> EvaluatedMoves:
        """All figures but those of load, which depends on other queries too.

        Parameters
        ----------
        usage_gain
            If that is known.
        """
        changes = _Changes.of(self.base, batch)
        came, target = changes.came, changes.target
        ship_s = self.one_way_of(changes.shipper, target) / 1e3
        bytes_to_ship = np.where(came, self._state_bytes, 0.0)
        seconds = bytes_to_ship / self._rebalancing.bandwidth_bytes_s + ship_s
        price = bytes_to_ship * ship_s + self._input_usage(batch, target) * seconds
        recovery_ms, latency_ms = self.recovery_ms(batch), self.evaluator.latency_ms(batch)
        return EvaluatedMoves(
            batch=batch,
            usage_gain=self.usage - self.traffic.of(batch) if usage_gain is None else usage_gain,
            uncertainty=self._uncertainty(batch),
            price=np.where(came, price / self._rebalancing.horizon_s, 0.0),
            bytes_to_ship=bytes_to_ship,
            seconds=np.where(came, seconds, 0.0),
            moves=changes.swapped[:, self.evaluator.placed].sum(axis=1) + came.sum(axis=1),
            recovery_ms=recovery_ms,
            latency_ms=latency_ms,
            findings=self._findings(batch, recovery_ms, latency_ms),
            load_delta=self._load_delta(changes),
        )

    def findings(self, batch: PlacementBatch) -> IntArray:
        """The first condition that each placement breaks, shape (f,), see `REASONS`."""
        return self._findings(batch, self.recovery_ms(batch), self.evaluator.latency_ms(batch))

    def _findings(
        self, batch: PlacementBatch, recovery_ms: FloatArray, latency_ms: FloatArray
    ) -> IntArray:
        placed = self.evaluator.placed
        same_node = batch.primaries == batch.secondaries
        looser = self.domains.looseness_between(*batch) > self.domains.looseness_between(*self.base)
        broken = {
            Reason.FAILURE_DOMAIN: (looser | same_node)[:, placed],
            Reason.PRIMARIES: self._not_allowed(batch),
            Reason.RECOVERY_BOUND: recovery_ms > self.recovery_limits_ms,
            Reason.DEADLINE: latency_ms[:, None] > self.latency_limit_ms,
        }
        findings = np.full(len(batch.primaries), LEGAL, dtype=np.int64)
        for reason, found in broken.items():
            findings[(findings == LEGAL) & found.any(axis=1)] = REASONS.index(reason)
        return findings

    def _not_allowed(self, batch: PlacementBatch) -> BoolArray:
        """Where a primary would go to a node that it may not take, shape (f, o)."""
        found = np.zeros(batch.primaries.shape, dtype=np.bool_)
        for o, allowed in self._allowed.items():
            at = batch.primaries[:, o]
            found[:, o] = ~allowed[at] & (at != self.base.primaries[0, o])
        return found

    def obstacle(self, evaluated: EvaluatedMoves, row: int, finding: int, load: Load) -> Obstacle:
        """What a finding says of one placement, with its figure and limit."""
        reason, graph = REASONS[finding], self._request.graph
        batch = evaluated.batch
        if reason is Reason.DEADLINE:
            late_ms = float(evaluated.latency_ms[row])
            limit_ms = self.latency_limit_ms
            return Obstacle(reason=reason, subject=graph.name, value=late_ms, limit=limit_ms)
        if reason is Reason.RECOVERY_BOUND:
            worst = int(np.argmax(evaluated.recovery_ms[row] - self.recovery_limits_ms))
            return Obstacle(
                reason=reason,
                subject=graph.order[worst],
                value=float(evaluated.recovery_ms[row, worst]),
                limit=float(self.recovery_limits_ms[worst]),
            )
        if reason is Reason.CAPACITY:
            delta = evaluated.load_delta.of(row)
            most = int(np.argmax(delta.cores - load.room_cores()[delta.nodes]))
            at = int(delta.nodes[most])
            return Obstacle(
                reason=reason,
                subject=self._view.nodes[at].name,
                value=float(load.used_cores[at] + delta.cores[most]),
                limit=float(self._view.capacity_cores[at]),
            )
        changed = np.flatnonzero(
            (batch.primaries[row] != self.base.primaries[0])
            | (batch.secondaries[row] != self.base.secondaries[0])
        )
        for o in changed.tolist():
            primary, secondary = int(batch.primaries[row, o]), int(batch.secondaries[row, o])
            node = self._view.nodes[primary]
            if reason is Reason.PRIMARIES and o in self._allowed and not self._allowed[o][primary]:
                told = f"the primary of {graph.order[o]} may only be on "
                told += ", ".join(graph.by_name[graph.order[o]].allowed)
                return Obstacle(reason=reason, subject=node.name, told=told)
            if reason is Reason.FAILURE_DOMAIN and primary == secondary:
                return Obstacle(reason=reason, subject=node.name)
            shared = self.domains.shared(primary, secondary)
            if reason is Reason.FAILURE_DOMAIN and shared:
                subject = ", ".join(f"{kind} {getattr(node, kind)}" for kind in shared)
                return Obstacle(reason=reason, subject=subject)
        return Obstacle(reason=reason, subject=graph.name)

    def legal_order(self, batch: PlacementBatch, row: int) -> list[ChangeStep] | None:
        """Steps to one of the placements of which every prefix is legal; None if none is found.

        Operators upstream move first if that is legal. Room on nodes is not checked on the way: a
        change brings replicas to one node only, which carries most when all is done.
        """
        steps = self.steps(batch, row)
        operators = list(steps)
        total = sum(len(path) for path in steps.values())
        seen: set[tuple[int, ...]] = set()
        # Depth first, over how many steps of each operator are done.
        ways: list[tuple[tuple[int, ...], list[ChangeStep]]] = [((0,) * len(operators), [])]
        while ways and len(seen) < ORDERS_TRIED:
            done, way = ways.pop()
            if len(way) == total:
                return way
            if done in seen:
                continue
            seen.add(done)
            following = [
                ((*done[:i], done[i] + 1, *done[i + 1 :]), [*way, steps[o][done[i]]])
                for i, o in enumerate(operators)
                if done[i] < len(steps[o])
            ]
            reached = stacked([self._after(longer) for _, longer in following])
            legal = self.findings(reached) == LEGAL
            ways += [entry for entry, ok in zip(following, legal, strict=True) if ok][::-1]
        return None

    def after_each(self, order: Sequence[ChangeStep]) -> PlacementBatch:
        """Placements after each of the steps."""
        return stacked([self._after(order[: i + 1]) for i in range(len(order))])

    def _after(self, done: Sequence[ChangeStep]) -> PlacementBatch:
        batch = self.base.repeated(1)
        for step in done:
            batch.primaries[0, step.operator], batch.secondaries[0, step.operator] = step.after
        return batch

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
        for stream in self.traffic.ending(StreamEnd.PRIMARY):
            o = stream.target
            delay_ms = self.one_way_of(batch.primaries[:, stream.source], target[:, o])
            if stream.pays is not None:
                delay_ms = delay_ms * stream.pays[target[:, o]]
            total[:, o] += stream.rate_bytes_s * delay_ms / 1e3
        return total

    def _uncertainty(self, batch: PlacementBatch) -> FloatArray:
        """Σ DR·error of the old and of the new link of every stream that changed, (f,), bytes."""
        total, uncertainty_of = np.zeros(len(batch.primaries)), self._view.uncertainty_of
        for stream in self.traffic.streams:
            (left, right), (left_before, right_before) = stream.ends(batch), stream.ends(self.base)
            changed = (left != left_before) | (right != right_before)
            error_ms = uncertainty_of(left, right) + uncertainty_of(left_before, right_before)
            total += np.where(changed, stream.rate_bytes_s * error_ms / 1e3, 0.0)
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

        replicas = summed(np.ones(len(rows)))
        return LoadDelta(
            rows=distinct // self._size,
            nodes=distinct % self._size,
            replicas=replicas.astype(np.int64),
            input_bytes_s=self._rate_bytes_s * replicas,
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
