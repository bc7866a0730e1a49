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
import numpy.typing as npt

from placement.assess import Pairs
from placement.errors import RunningError
from placement.network import NetworkView
from placement.rebalancing.explanation import (
    Candidate,
    CopyExplanation,
    Explanation,
    Force,
    Obstacle,
)
from placement.rebalancing.moves import Reason, RebalanceSettings, Role
from placement.rebalancing.neighbours import Neighbourhood
from placement.rebalancing.pulls import Pull, pulls_at, usage_by_host
from placement.rebalancing.running import Crowd, RunningQuery, as_running
from placement.rebalancing.trials import Rows
from placement.rebalancing.weighing import LEGAL, REASONS, Scales
from placement.records import Request
from placement.settings import Settings

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


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
    crowd = Crowd(view, settings, queries)
    scales = Neighbourhood(
        found[0],
        crowd,
        view,
        {},
        settings,
        RebalanceSettings(candidates=len(view.hosts)),
    ).scales
    work = _Work(operator, found[0], crowd, view, scales)
    return Explanation(
        query=found[0].request.graph.name,
        operator=operator,
        primary=work.explain(Role.PRIMARY),
        secondary=work.explain(Role.SECONDARY),
    )


class _Work:
    """Explains the copies of one operator."""

    def __init__(
        self, operator: str, query: RunningQuery, crowd: Crowd, view: NetworkView, scales: Scales
    ) -> None:
        self._operator = operator
        self._query = query
        self._crowd = crowd
        self._view = view
        self._scales = scales
        self._column = scales.trials.column[operator]

    def explain(self, copy: Role) -> CopyExplanation:
        """One copy."""
        pulls = pulls_at(self._query, self._view, self._operator, copy)
        at = self._query.places[self._operator][_which(copy)]
        candidates = self._candidates(copy, at, pulls)
        node = self._view.nodes[at].name
        cheapest = candidates[0].obstacle
        free = cheapest is None or cheapest.reason is Reason.MARGIN
        return CopyExplanation(
            role=copy,
            node=node,
            forces=self._forces(at, pulls),
            candidates=candidates,
            binding=None if free else cheapest,
            best_rejected=next((c for c in candidates if c.node != node), None),
        )

    def _candidates(self, copy: Role, at: int, pulls: list[Pull]) -> tuple[Candidate, ...]:
        """All hosts, cheapest first; of equally cheap ones the present node, then by name."""
        to_secondaries = [pull for pull in pulls if copy is Role.SECONDARY or _is_standby(pull)]
        to_primaries = [pull for pull in pulls if pull not in to_secondaries]
        hosts = self._view.host_indices
        rate = self._query.request.graph.input_rate(self._operator)
        share_ms = self._query.shares_ms[self._operator][_which(copy)]
        own, others = self._crowd.price_of_copy(at, rate, share_ms)
        parts = (
            usage_by_host(to_primaries, self._view),
            usage_by_host(to_secondaries, self._view),
            own[hosts],
            others[hosts],
        )
        totals = np.sum(parts, axis=0)
        obstacles = self._obstacles(copy, totals, int(np.flatnonzero(hosts == at)[0]))
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

    def _obstacles(self, copy: Role, totals: FloatArray, here: int) -> list[Obstacle | None]:
        """What is against each host; nothing against the one at `here`."""
        hosts = self._view.host_indices
        rows = self._scales.base.repeated(len(hosts))
        copies = rows.primaries if copy is Role.PRIMARY else rows.secondaries
        copies[:, self._column] = self._scales.trials.local(hosts)
        weighed = self._scales.weigh(rows)
        full = ~self._crowd.has_room(weighed.touches, len(hosts))
        recovery_ms = self._scales.trials.recovery_ms(rows)
        path_ms = self._scales.trials.path_ms(rows)
        verdicts: list[int] = weighed.verdicts.tolist()
        obstacles: list[Obstacle | None] = []
        for i, verdict in enumerate(verdicts):
            if i == here:
                obstacles.append(None)
            elif verdict != LEGAL:
                found = self._broken(REASONS[verdict], rows, i, recovery_ms[i], float(path_ms[i]))
                obstacles.append(found)
            elif full[i]:
                obstacles.append(self._full(int(hosts[i])))
            else:
                obstacles.append(self._dearer(float(totals[i]), float(totals[here]), here))
        return obstacles

    def _broken(
        self, reason: Reason, rows: Rows, row: int, recovery_ms: FloatArray, path_ms: float
    ) -> Obstacle:
        if reason is Reason.DEADLINE:
            name, limit_ms = self._query.request.graph.name, self._scales.path_limit_ms
            return Obstacle(reason=reason, subject=name, value=path_ms, limit=limit_ms)
        if reason is Reason.RECOVERY_BOUND:
            limits_ms = self._scales.recovery_limits_ms
            worst = int(np.argmax(recovery_ms - limits_ms))
            return Obstacle(
                reason=reason,
                subject=self._query.request.graph.order[worst],
                value=float(recovery_ms[worst]),
                limit=float(limits_ms[worst]),
            )
        nodes = self._scales.trials.nodes
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
            value=float(self._crowd.cores[node]) + cores,
            limit=float(self._view.capacity_cores[node]),
        )

    def _dearer(self, total: float, present: float, here: int) -> Obstacle:
        """Legal: then it is dearer, or not cheap enough to have been moved to."""
        reason = Reason.MARGIN if total < present else Reason.COST
        subject = self._view.hosts[here].name
        return Obstacle(reason=reason, subject=subject, value=total, limit=present)

    def _forces(self, at: int, pulls: list[Pull]) -> tuple[Force, ...]:
        forces: list[Force] = []
        for pull in pulls:
            apart = self._view.positions_ms[pull.node] - self._view.positions_ms[at]
            length_ms = math.hypot(*apart)
            here, there = self._view.nodes[at].name, self._view.nodes[pull.node].name
            latency_ms = self._view.one_way_ms(here, there)
            forces.append(
                Force(
                    operator=pull.operator,
                    copy=pull.copy,
                    node=there,
                    incoming=pull.incoming,
                    rate_bytes_s=pull.rate_bytes_s,
                    direction=tuple((apart / (length_ms or 1.0)).tolist()),
                    latency_ms=latency_ms,
                    usage=pull.rate_bytes_s * latency_ms / 1e3,
                )
            )
        return tuple(sorted(forces, key=lambda force: -force.rate_bytes_s))


def _which(copy: Role) -> int:
    return 0 if copy is Role.PRIMARY else 1


def _is_standby(pull: Pull) -> bool:
    return pull.copy is Role.SECONDARY
