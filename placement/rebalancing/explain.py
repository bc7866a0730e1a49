"""Why an operator is where it is.

For each of its two copies: the streams that pull at it, what every node would cost, and what is
against the best of the others. The figures are those that rebalancing weighs, so the difference
between two candidates' totals is what a move between them would gain, all else staying where it is.
The answer is a record (`placement.rebalancing.explanation`); how it reads is for others to say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from placement.assess import Pairs
from placement.errors import RunningError
from placement.network import NetworkView
from placement.rebalancing.batch_evaluation import PlacementBatch
from placement.rebalancing.candidate_moves import CandidateMoves
from placement.rebalancing.explanation import (
    Candidate,
    Explanation,
    Force,
    Obstacle,
    ReplicaExplanation,
)
from placement.rebalancing.move_evaluation import LEGAL, REASONS, MoveEvaluation
from placement.rebalancing.moves import MovedRole, Reason, RebalanceSettings
from placement.rebalancing.running import NodeLoad, RunningQuery, as_running
from placement.rebalancing.traffic_terms import TrafficTerm, traffic_terms_at, usage_by_host
from placement.records import Request
from placement.settings import Settings
from topology.arrays import FloatArray


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
        As for `rebalance.rebalance`: all that runs, since it makes nodes busy.
    operator
        One that is placed, not pinned.

    Raises
    ------
    RunningError
        If there is no such operator, or `running` does not fit the queries; `Stranded` if a copy's
        node is gone or takes no operators.
    GraphError, NetworkError
        If queries and network contradict each other.
    """
    settings = settings or Settings()
    queries = as_running(requests, running, view)
    found = [query for query in queries if operator in query.places]
    if not found:
        raise RunningError(operator, "is in none of the queries given, or is pinned")
    node_load = NodeLoad(view, settings, queries)
    evaluation = CandidateMoves(
        found[0],
        node_load,
        view,
        {},
        settings,
        RebalanceSettings(candidates=len(view.hosts)),
    ).evaluation
    work = _Work(operator, found[0], node_load, view, evaluation)
    return Explanation(
        query=found[0].request.graph.name,
        operator=operator,
        primary=work.explain(MovedRole.PRIMARY),
        secondary=work.explain(MovedRole.SECONDARY),
    )


class _Work:
    """Explains the copies of one operator."""

    def __init__(
        self,
        operator: str,
        query: RunningQuery,
        node_load: NodeLoad,
        view: NetworkView,
        evaluation: MoveEvaluation,
    ) -> None:
        self._operator = operator
        self._query = query
        self._node_load = node_load
        self._view = view
        self._evaluation = evaluation
        self._column = evaluation.batch_evaluation.column[operator]

    def explain(self, replica: MovedRole) -> ReplicaExplanation:
        """One copy."""
        terms = traffic_terms_at(self._query, self._view, self._operator, replica)
        at = self._query.places[self._operator][_which(replica)]
        candidates = self._candidates(replica, at, terms)
        node = self._view.nodes[at].name
        cheapest = candidates[0].obstacle
        free = cheapest is None or cheapest.reason is Reason.MARGIN
        return ReplicaExplanation(
            role=replica,
            node=node,
            forces=self._forces(at, terms),
            candidates=candidates,
            binding=None if free else cheapest,
            best_rejected=next((c for c in candidates if c.node != node), None),
        )

    def _candidates(
        self, replica: MovedRole, at: int, terms: list[TrafficTerm]
    ) -> tuple[Candidate, ...]:
        """All hosts, cheapest first; of equally cheap ones the present node, then by name."""
        to_secondaries = [
            term for term in terms if replica is MovedRole.SECONDARY or _is_standby(term)
        ]
        to_primaries = [term for term in terms if term not in to_secondaries]
        hosts = self._view.host_indices
        rate = self._query.request.graph.input_rate(self._operator)
        share_ms = self._query.shares_ms[self._operator][_which(replica)]
        own, others = self._node_load.price_of_replica(at, rate, share_ms)
        parts = (
            usage_by_host(to_primaries, self._view),
            usage_by_host(to_secondaries, self._view),
            own[hosts],
            others[hosts],
        )
        totals = np.sum(parts, axis=0)
        obstacles = self._obstacles(replica, totals, int(np.flatnonzero(hosts == at)[0]))
        order: list[int] = np.lexsort((hosts != at, totals)).tolist()
        return tuple(
            Candidate(
                node=self._view.hosts[i].name,
                usage=float(parts[0][i]),
                standby=float(parts[1][i]),
                load_price=float(parts[2][i]),
                crowding=float(parts[3][i]),
                obstacle=obstacles[i],
            )
            for i in order
        )

    def _obstacles(
        self, replica: MovedRole, totals: FloatArray, here: int
    ) -> list[Obstacle | None]:
        """What is against each host; nothing against the one at `here`."""
        hosts = self._view.host_indices
        rows = self._evaluation.base.repeated(len(hosts))
        replicas = rows.primaries if replica is MovedRole.PRIMARY else rows.secondaries
        replicas[:, self._column] = self._evaluation.batch_evaluation.local(hosts)
        evaluated = self._evaluation.evaluate(rows)
        full = ~self._node_load.has_room(evaluated.load_delta, len(hosts))
        recovery_ms = self._evaluation.batch_evaluation.recovery_ms(rows)
        path_ms = self._evaluation.batch_evaluation.path_ms(rows)
        findings: list[int] = evaluated.findings.tolist()
        obstacles: list[Obstacle | None] = []
        for i, finding in enumerate(findings):
            if i == here:
                obstacles.append(None)
            elif finding != LEGAL:
                found = self._broken(REASONS[finding], rows, i, recovery_ms[i], float(path_ms[i]))
                obstacles.append(found)
            elif full[i]:
                obstacles.append(self._full(int(hosts[i])))
            else:
                obstacles.append(self._dearer(float(totals[i]), float(totals[here]), here))
        return obstacles

    def _broken(
        self,
        reason: Reason,
        rows: PlacementBatch,
        row: int,
        recovery_ms: FloatArray,
        path_ms: float,
    ) -> Obstacle:
        if reason is Reason.DEADLINE:
            name, limit_ms = self._query.request.graph.name, self._evaluation.path_limit_ms
            return Obstacle(reason=reason, subject=name, value=path_ms, limit=limit_ms)
        if reason is Reason.RECOVERY_BOUND:
            limits_ms = self._evaluation.recovery_limits_ms
            worst = int(np.argmax(recovery_ms - limits_ms))
            return Obstacle(
                reason=reason,
                subject=self._query.request.graph.order[worst],
                value=float(recovery_ms[worst]),
                limit=float(limits_ms[worst]),
            )
        nodes = self._evaluation.batch_evaluation.nodes
        primary = int(nodes[rows.primaries[row, self._column]])
        secondary = int(nodes[rows.secondaries[row, self._column]])
        node = self._view.nodes[primary]
        subject = node.name if primary == secondary else node.domain
        return Obstacle(reason=reason, subject=subject)

    def _full(self, node: int) -> Obstacle:
        cores = self._query.request.graph.cores(self._operator)
        return Obstacle(
            reason=Reason.CAPACITY,
            subject=self._view.nodes[node].name,
            value=float(self._node_load.cores[node]) + cores,
            limit=float(self._view.capacity_cores[node]),
        )

    def _dearer(self, total: float, present: float, here: int) -> Obstacle:
        """Legal: then it is dearer, or not cheap enough to have been moved to."""
        reason = Reason.MARGIN if total < present else Reason.COST
        subject = self._view.hosts[here].name
        return Obstacle(reason=reason, subject=subject, value=total, limit=present)

    def _forces(self, at: int, terms: list[TrafficTerm]) -> tuple[Force, ...]:
        forces: list[Force] = []
        for term in terms:
            apart = self._view.positions_ms[term.node] - self._view.positions_ms[at]
            length_ms = math.hypot(*apart)
            here, there = self._view.nodes[at].name, self._view.nodes[term.node].name
            latency_ms = self._view.one_way_ms(here, there)
            forces.append(
                Force(
                    operator=term.operator,
                    replica=term.replica,
                    node=there,
                    incoming=term.incoming,
                    rate_bytes_s=term.rate_bytes_s,
                    direction=tuple((apart / (length_ms or 1.0)).tolist()),
                    latency_ms=latency_ms,
                    usage=term.rate_bytes_s * latency_ms / 1e3,
                )
            )
        return tuple(sorted(forces, key=lambda force: -force.rate_bytes_s))


def _which(replica: MovedRole) -> int:
    return 0 if replica is MovedRole.PRIMARY else 1


def _is_standby(term: TrafficTerm) -> bool:
    return term.replica is MovedRole.SECONDARY
