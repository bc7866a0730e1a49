"""Why an operator is where it is.

For each of its two replicas: the streams that pull at it, the cost of every node, and the obstacle
to the best of the others. The figures are those of rebalancing, so the difference between two
candidates' totals is the gain of a move between them, all else staying where it is. The result is a
record (`placement.rebalancing.explanation`); rendering it is left to the caller.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foundation.arrays import FloatArray
from placement.errors import RunningError
from placement.evaluation.evaluator import PlacementBatch
from placement.evaluation.load import Load
from placement.network import NetworkView
from placement.rebalancing.candidate_moves import CandidateMoves
from placement.rebalancing.explanation import (
    CandidateNode,
    Explanation,
    Force,
    Obstacle,
    ReplicaExplanation,
)
from placement.rebalancing.move_evaluation import LEGAL, REASONS, MoveEvaluation
from placement.rebalancing.moves import Reason, RebalanceSettings
from placement.rebalancing.running import RunningQuery, as_running, running_load
from placement.rebalancing.traffic_terms import TrafficTerm, traffic_terms_at, usage_by_host
from placement.records import Pairs, Request
from placement.settings import Settings


def explain(
    requests: Sequence[Request],
    running: Pairs,
    view: NetworkView,
    operator: str,
    *,
    settings: Settings | None = None,
) -> Explanation:
    """Explain the places of one operator.

    Parameters
    ----------
    requests, running, view, settings
        As for `rebalance.rebalance`: all running queries, since they make nodes busy.
    operator
        One that is placed, not pinned.

    Raises
    ------
    RunningError
        If there is no such operator, or `running` does not fit the queries; `Stranded` if a
        replica's node is gone or takes no operators.
    GraphError, NetworkError
        If queries and network contradict each other.
    """
    settings = settings or Settings()
    queries = as_running(requests, running, view)
    found = [query for query in queries if operator in query.places]
    if not found:
        raise RunningError(operator, "is in none of the queries given, or is pinned")
    load = running_load(view, settings, queries)
    evaluation = CandidateMoves(
        found[0],
        load,
        view,
        {},
        settings,
        RebalanceSettings(candidates=len(view.hosts)),
    ).evaluation
    primary, secondary = (
        _Replica(operator, is_secondary, found[0], load, view, evaluation).explained()
        for is_secondary in (False, True)
    )
    return Explanation(
        query=found[0].request.graph.name,
        operator=operator,
        primary=primary,
        secondary=secondary,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Replica:
    """One replica of the operator, and what its explanation follows from."""

    operator: str
    is_secondary: bool
    query: RunningQuery
    load: Load
    view: NetworkView
    evaluation: MoveEvaluation

    @property
    def _column(self) -> int:
        return self.evaluation.evaluator.column[self.operator]

    def explained(self) -> ReplicaExplanation:
        """Forces, candidates and obstacles."""
        terms = traffic_terms_at(self.query, self.view, self.operator, secondary=self.is_secondary)
        at = self.query.places[self.operator][self.is_secondary]
        candidates = self._candidates(at, terms)
        node = self.view.nodes[at].name
        cheapest = candidates[0].obstacle
        free = cheapest is None or cheapest.reason is Reason.MARGIN
        return ReplicaExplanation(
            node=node,
            forces=self._forces(at, terms),
            candidates=candidates,
            binding=None if free else cheapest,
            best_rejected=next((c for c in candidates if c.node != node), None),
        )

    def _candidates(self, at: int, terms: list[TrafficTerm]) -> tuple[CandidateNode, ...]:
        """All hosts, cheapest first; of equally cheap ones the present node, then by name."""
        to_secondaries = [term for term in terms if self.is_secondary or term.is_secondary]
        to_primaries = [term for term in terms if term not in to_secondaries]
        hosts = self.view.host_indices
        rate = self.query.request.graph.input_rate(self.operator)
        share_ms = self.query.shares_ms[self.operator][self.is_secondary]
        own, others = self.load.price_of_replica(at, rate, share_ms)
        parts = (
            usage_by_host(to_primaries, self.view),
            usage_by_host(to_secondaries, self.view),
            own[hosts],
            others[hosts],
        )
        totals = np.sum(parts, axis=0)
        obstacles = self._obstacles(totals, int(np.flatnonzero(hosts == at)[0]))
        order: list[int] = np.lexsort((hosts != at, totals)).tolist()
        return tuple(
            CandidateNode(
                node=self.view.hosts[i].name,
                usage=float(parts[0][i]),
                standby=float(parts[1][i]),
                load_price=float(parts[2][i]),
                crowding=float(parts[3][i]),
                obstacle=obstacles[i],
            )
            for i in order
        )

    def _obstacles(self, totals: FloatArray, here: int) -> list[Obstacle | None]:
        """The obstacle to each host; None to the one at `here`."""
        hosts = self.view.host_indices
        batch = self.evaluation.base.repeated(len(hosts))
        replicas = batch.secondaries if self.is_secondary else batch.primaries
        replicas[:, self._column] = hosts
        evaluated = self.evaluation.evaluate(batch)
        full = ~self.load.has_room_for(evaluated.load_delta, len(hosts))
        recovery_ms = self.evaluation.recovery_ms(batch)
        latency_ms = self.evaluation.evaluator.latency_ms(batch)
        findings: list[int] = evaluated.findings.tolist()
        obstacles: list[Obstacle | None] = []
        for i, finding in enumerate(findings):
            if i == here:
                obstacles.append(None)
            elif finding != LEGAL:
                reason, late_ms = REASONS[finding], float(latency_ms[i])
                obstacles.append(self._broken(reason, batch, i, recovery_ms[i], late_ms))
            elif full[i]:
                obstacles.append(self._full(int(hosts[i])))
            else:
                obstacles.append(self._dearer(float(totals[i]), float(totals[here]), here))
        return obstacles

    def _broken(
        self,
        reason: Reason,
        batch: PlacementBatch,
        row: int,
        recovery_ms: FloatArray,
        latency_ms: float,
    ) -> Obstacle:
        if reason is Reason.DEADLINE:
            name, limit_ms = self.query.request.graph.name, self.evaluation.latency_limit_ms
            return Obstacle(reason=reason, subject=name, value=latency_ms, limit=limit_ms)
        if reason is Reason.RECOVERY_BOUND:
            limits_ms = self.evaluation.recovery_limits_ms
            worst = int(np.argmax(recovery_ms - limits_ms))
            return Obstacle(
                reason=reason,
                subject=self.query.request.graph.order[worst],
                value=float(recovery_ms[worst]),
                limit=float(limits_ms[worst]),
            )
        primary = int(batch.primaries[row, self._column])
        secondary = int(batch.secondaries[row, self._column])
        node = self.view.nodes[primary]
        subject = node.name if primary == secondary else node.domain
        return Obstacle(reason=reason, subject=subject)

    def _full(self, node: int) -> Obstacle:
        cores = self.query.request.graph.cores(self.operator)
        return Obstacle(
            reason=Reason.CAPACITY,
            subject=self.view.nodes[node].name,
            value=float(self.load.used_cores[node]) + cores,
            limit=float(self.view.capacity_cores[node]),
        )

    def _dearer(self, total: float, present: float, here: int) -> Obstacle:
        """A legal host is dearer, or not cheap enough to be moved to."""
        reason = Reason.MARGIN if total < present else Reason.COST
        subject = self.view.hosts[here].name
        return Obstacle(reason=reason, subject=subject, value=total, limit=present)

    def _forces(self, at: int, terms: list[TrafficTerm]) -> tuple[Force, ...]:
        forces: list[Force] = []
        for term in terms:
            apart = self.view.positions_ms[term.node] - self.view.positions_ms[at]
            length_ms = math.hypot(*apart)
            here, there = self.view.nodes[at].name, self.view.nodes[term.node].name
            latency_ms = self.view.one_way_ms(here, there)
            forces.append(
                Force(
                    operator=term.operator,
                    is_secondary=term.is_secondary,
                    node=there,
                    incoming=term.incoming,
                    rate_bytes_s=term.rate_bytes_s,
                    direction=tuple((apart / (length_ms or 1.0)).tolist()),
                    latency_ms=latency_ms,
                    usage=term.rate_bytes_s * latency_ms / 1e3,
                )
            )
        return tuple(sorted(forces, key=lambda force: -force.rate_bytes_s))
