"""Why an operator is where it is.

For each of its two replicas: the streams that pull at it, the cost of every node, and the obstacle
to the best of the others. The figures are those of rebalancing, so the difference between two
candidates' totals is the gain of a move between them, all else staying where it is.

Forces are those of reliable placement, Algorithm 3: a stream of DR bytes/s pulls at both its ends.
Costs are in the planner's currency, bytes/s × s = bytes (`placement.evaluation.cost`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from foundation.arrays import FloatArray
from placement.errors import RunningError
from placement.evaluation.cost import PricedStream, StreamEnd
from placement.evaluation.load import Load
from placement.network import NetworkView
from placement.rebalancing.move_evaluation import LEGAL, REASONS, MoveEvaluation
from placement.rebalancing.moves import Obstacle, Reason, RebalanceSettings, too_little
from placement.rebalancing.running import RunningQuery, as_running, running_load
from placement.records import Pairs, Request
from placement.settings import Settings

ObstacleOf = Callable[[str, str], Obstacle | None]
"""What stands against nodes of an operator's primary and secondary; None: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Force:
    """One stream that pulls at a replica.

    Attributes
    ----------
    operator, is_secondary, node
        The replica at its other end; no operator if that is a reader in another query.
    incoming
        Whether the stream comes from there.
    latency_ms, usage
        One way, ms, and what the stream costs at present, bytes.
    """

    operator: str
    is_secondary: bool
    node: str
    incoming: bool
    rate_bytes_s: float
    latency_ms: float
    usage: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateNode:
    """The cost of a replica on a node, bytes, and the obstacle to it.

    Attributes
    ----------
    usage
        Of its streams to and from primaries, and to readers in other queries.
    standby
        Of its streams to or as a secondary.
    load_price
        Its own, for the CPU axis there.
    crowding
        The increase of the load prices of the other replicas there.
    obstacle
        None for the node where it is.
    """

    node: str
    usage: float
    standby: float
    load_price: float
    crowding: float
    obstacle: Obstacle | None

    @property
    def total(self) -> float:
        """All of it, bytes."""
        return self.usage + self.standby + self.load_price + self.crowding


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaExplanation:
    """Why one replica is on its node.

    Attributes
    ----------
    forces
        Strongest first, by rate.
    candidates
        All nodes that may run operators, cheapest first; the replica's own among them.
    binding
        The obstacle to the cheapest node of all; None if the replica is there, or if at most the
        effort of moving keeps it away.
    best_rejected
        The cheapest of the others; None if there is no other.
    """

    node: str
    forces: tuple[Force, ...]
    candidates: tuple[CandidateNode, ...]
    binding: Obstacle | None
    best_rejected: CandidateNode | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why an operator's replicas are where they are."""

    query: str
    operator: str
    primary: ReplicaExplanation
    secondary: ReplicaExplanation


def explain(
    requests: Sequence[Request],
    running: Pairs,
    view: NetworkView,
    operator: str,
    *,
    settings: Settings | None = None,
    rebalancing: RebalanceSettings | None = None,
) -> Explanation:
    """Explain the places of one operator.

    Parameters
    ----------
    requests, running, view, settings, rebalancing
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
    queries = as_running(requests, running, view)
    return explain_running(queries, view, operator, settings or Settings(), rebalancing=rebalancing)


def explain_running(
    queries: Sequence[RunningQuery],
    view: NetworkView,
    operator: str,
    settings: Settings,
    obstacle_of: ObstacleOf | None = None,
    *,
    state_bytes: Mapping[str, float] | None = None,
    rebalancing: RebalanceSettings | None = None,
) -> Explanation:
    """Explain the places of one operator; see `explain`.

    Parameters
    ----------
    obstacle_of
        Judges nodes instead of the quick test of rebalancing.
    state_bytes, rebalancing
        As for `rebalance.improve`: with them a candidate's margin is that of a move there.
    """
    found = [query for query in queries if operator in query.places]
    if not found:
        raise RunningError(operator, "is in none of the queries given, or is pinned")
    load = running_load(view, settings, queries)
    nodes = np.union1d(view.host_indices, found[0].nodes(view))
    evaluation = MoveEvaluation(
        found[0], view, nodes, state_bytes or {}, settings, rebalancing or RebalanceSettings()
    )
    primary, secondary = (
        _Replica(operator, is_secondary, found[0], load, view, evaluation).explained(obstacle_of)
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

    @property
    def _at(self) -> int:
        return self.query.places[self.operator][self.is_secondary]

    def explained(self, obstacle_of: ObstacleOf | None) -> ReplicaExplanation:
        """Forces, candidates and obstacles."""
        streams = self.evaluation.traffic.touching(self.operator, secondary=self.is_secondary)
        candidates = self._candidates(streams, obstacle_of)
        node = self.view.nodes[self._at].name
        cheapest = candidates[0].obstacle
        free = cheapest is None or cheapest.reason in (Reason.MARGIN, Reason.WORTH)
        return ReplicaExplanation(
            node=node,
            forces=tuple(sorted(map(self._force, streams), key=lambda force: -force.rate_bytes_s)),
            candidates=candidates,
            binding=None if free else cheapest,
            best_rejected=next((c for c in candidates if c.node != node), None),
        )

    def _candidates(
        self, streams: Sequence[PricedStream], obstacle_of: ObstacleOf | None
    ) -> tuple[CandidateNode, ...]:
        """All hosts, cheapest first; of equally cheap ones the present node, then by name."""
        hosts, graph = self.view.host_indices, self.query.request.graph
        batch = self.evaluation.base.repeated(len(hosts))
        replicas = batch.secondaries if self.is_secondary else batch.primaries
        replicas[:, self._column] = hosts
        standby = [each for each in streams if each.end is StreamEnd.SECONDARY]
        others = [each for each in streams if each.end is not StreamEnd.SECONDARY]
        rate = graph.mean_input_rate
        share_ms = self.query.shares_of(self.operator)[self.is_secondary]
        own, crowding = self.load.price_of_replica(self._at, rate, share_ms, hosts)
        price = self.evaluation.traffic.of
        parts = (price(batch, others), price(batch, standby), own, crowding)
        totals: FloatArray = np.sum(parts, axis=0)
        evaluated = self.evaluation.evaluate(batch)
        full = ~self.load.has_room_for(evaluated.load_delta, len(hosts))
        capacity = REASONS.index(Reason.CAPACITY)
        findings = np.where((evaluated.findings == LEGAL) & full, capacity, evaluated.findings)
        margins = self.evaluation.margins(evaluated, self.load.axis_ms())
        here = np.flatnonzero(hosts == self._at)
        present = float(totals[here[0]]) if len(here) else float("inf")

        def obstacle(row: int) -> Obstacle | None:
            if hosts[row] == self._at:
                return None
            if obstacle_of is not None:
                pair = (int(batch.primaries[row, self._column]),)
                pair += (int(batch.secondaries[row, self._column]),)
                found = obstacle_of(*self.view.names(pair))
            elif (finding := int(findings[row])) == LEGAL:
                found = None
            else:
                found = self.evaluation.obstacle(evaluated, row, finding, self.load)
            return found or self._worth(float(totals[row]), present, float(margins[row]))

        order: list[int] = np.lexsort((hosts != self._at, totals)).tolist()
        return tuple(
            CandidateNode(
                node=self.view.hosts[i].name,
                usage=float(parts[0][i]),
                standby=float(parts[1][i]),
                load_price=float(parts[2][i]),
                crowding=float(parts[3][i]),
                obstacle=obstacle(i),
            )
            for i in order
        )

    def _worth(self, total: float, present: float, margin: float) -> Obstacle:
        """Of a legal host: it is dearer, or what a move there would gain, by what it has to."""
        here, gain = self.view.nodes[self._at].name, present - total
        if gain <= 0:
            reason, told = Reason.COST, f"{total:,.0f} bytes, {present:,.0f} on {here}"
        elif gain <= margin:
            reason, told = Reason.MARGIN, too_little(gain, margin)
        else:
            reason = Reason.WORTH
            told = f"gains {gain:.4g} bytes, of which {margin:.4g} are needed: `vivace rebalance`"
        return Obstacle(
            reason=reason,
            subject=here,
            value=total,
            limit=present,
            told=f"{reason.value}: {told}",
        )

    def _force(self, stream: PricedStream) -> Force:
        base, graph = self.evaluation.base, self.query.request.graph
        left, right = (int(nodes[0]) for nodes in stream.ends(base))
        incoming = stream.target == self._column and stream.end is not StreamEnd.NODE
        if stream.source == self._column:
            # The checkpoints of its own secondary go out of it.
            incoming = self.is_secondary and incoming
        other = left if incoming else right
        is_node = stream.end is StreamEnd.NODE
        named = "" if is_node else graph.order[stream.source if incoming else stream.target]
        here, there = self.view.nodes[self._at].name, self.view.nodes[other].name
        return Force(
            operator=named,
            is_secondary=stream.end is StreamEnd.SECONDARY and not incoming,
            node=there,
            incoming=incoming,
            rate_bytes_s=stream.rate_bytes_s,
            latency_ms=self.view.one_way_ms(here, there),
            usage=float(self.evaluation.traffic.of(base, [stream])[0]),
        )
