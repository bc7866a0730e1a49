"""Plans of many queries in rounds, the same however a round is divided among workers.

`planner.plan` places each query around all those before it, one after the other. Here the queries
of a round are placed independently of each other, and the load is updated only between rounds. The
function that places a round is an argument: a loop, or Spark's executors
(`orchestrator.spark.bulk.bulk_placement`). Both call `place_apart`. The result for a query does not
depend on where it is placed, beside which others or in which order.

Queries that know nothing of each other all take the same idle nodes: on 1,000 nodes, rounds of 100
put up to 120 replicas on a node where one-by-one placement puts 11. Two measures prevent that.

*Expected replicas.* Before a round, each of its queries is expected to put two replicas of every
operator on the nodes nearest to its point with the CPU axis (`placement.relaxation`), in the order
of registration. This estimate is quick and roughly right. A query is placed around the load of the
rounds before and the expected replicas of the queries before it. Expected replicas raise prices but
take no room, so no query is refused because of them.

*Putting back.* After a round its queries are accepted in the order of registration. A query is put
back to the next round if one of its nodes has no room, or holds more than `BulkSettings.excess`
replicas more than the query was placed around. The first one never is, so the rounds come to an
end. Rounds of one query give the plan of `planner.plan` before that goes on with all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from foundation.arrays import FloatArray, IntArray
from placement.errors import (
    BoundUnattainable,
    DeadlineUnattainable,
    NoNode,
    SolverStopped,
    check_numbers,
)
from placement.evaluation.load import ROUNDING_CORES, Load
from placement.network import NetworkView
from placement.planner import free_points, place_query
from placement.records import PlacedOperator, Plan, QueryFigures, Request, check_requests
from placement.settings import Settings

REPLICAS = 2
"""Of an operator: primary and secondary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkSettings:
    """How rounds are made.

    Attributes
    ----------
    round_size
        Queries in a round, ≥ 1: as many may be placed at the same time.
    excess
        Replicas on a node by which a query's expectation may be wrong, ≥ 0. With a small number,
        more queries are put back; with a large one, replicas pile up.
    """

    round_size: int = 100
    excess: int = 1

    def __post_init__(self) -> None:
        check_numbers(self, round_size="≥ 1", excess="≥ 0")


class Candidate(NamedTuple):
    """A query of a round: its place in the round, and the points of its operators, ms."""

    rank: int
    request: Request
    points_ms: Mapping[str, FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a query in a round.

    Attributes
    ----------
    rank
        Its place in the round.
    placements
        Of its operators, in the order of the graph; none if it is refused.
    figures
        Figures of its placement; None if it is refused.
    refusal
        Why it cannot be placed; empty if it can.
    """

    rank: int
    placements: tuple[PlacedOperator, ...] = ()
    figures: QueryFigures | None = None
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Around:
    """The load that the queries of a round are placed around.

    Attributes
    ----------
    start
        The load when the round starts.
    expected
        Nodes that each query of the round is expected to put replicas on, by rank: indices, a node
        once for each replica.
    """

    start: Load
    expected: tuple[IntArray, ...]

    def before(self, rank: int) -> Load:
        """The load with the expected replicas of the queries before one."""
        ahead = np.concatenate([np.empty(0, dtype=np.int64), *self.expected[:rank]])
        return self.start.with_expected(ahead)


PlaceRound = Callable[[Sequence[Candidate], Around], Iterable[Outcome]]
"""Places the queries of a round by `place_apart`, in any order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkPlan:
    """Placements and figures in the order of the queries, and figures of the rounds.

    Attributes
    ----------
    refused
        Query that cannot be placed → why.
    rounds, placings
        Rounds made, and queries placed in them, those put back included.
    """

    plan: Plan
    refused: Mapping[str, str]
    rounds: int
    placings: int


def plan_in_rounds(
    requests: Sequence[Request],
    view: NetworkView,
    *,
    bulk: BulkSettings | None = None,
    settings: Settings | None = None,
    rng: np.random.Generator,
    place: PlaceRound | None = None,
    say: Callable[[str], None] | None = None,
) -> BulkPlan:
    """Place many queries, a round at a time.

    Parameters
    ----------
    requests
        In the order of registration.
    view
        Nodes and latencies.
    bulk, settings
        The defaults if not given.
    rng
        As for `planner.plan`.
    place
        Places a round; this process if not given.
    say
        Takes a phrase that tells the progress.

    Raises
    ------
    GraphError, NetworkError
        If the input contradicts itself.
    NoNode
        If no node runs operators.
    """
    bulk, settings = bulk or BulkSettings(), settings or Settings()
    check_requests(requests, view)
    place = place or placing_here(view, settings)
    points_ms = free_points(requests, view, settings, (rng for _ in requests))
    load = Load(view, operator_load=settings.operator_load, cpu=settings.cpu)
    done: dict[int, Outcome] = {}
    waiting = list(range(len(requests)))
    rounds = placings = 0
    while waiting:
        numbers, later = waiting[: bulk.round_size], waiting[bulk.round_size :]
        queries = [
            Candidate(rank, requests[number], points_ms[number])
            for rank, number in enumerate(numbers)
        ]
        around = Around(start=load, expected=tuple(_expected(queries, view, load)))
        outcomes = sorted(place(queries, around), key=_rank)
        load, accepted = _accept(queries, outcomes, around, view, bulk.excess)
        done |= {numbers[outcome.rank]: outcome for outcome in accepted}
        waiting = [number for number in numbers if number not in done] + later
        rounds, placings = rounds + 1, placings + len(numbers)
        if say is not None:
            say(f"round {rounds}: {len(done):,} of {len(requests):,} queries are placed")
    return _wrap(requests, [done[number] for number in range(len(requests))], rounds, placings)


def place_apart(
    queries: Iterable[Candidate], around: Around, view: NetworkView, settings: Settings
) -> Iterator[Outcome]:
    """Place queries of a round independently of each other."""
    for rank, request, points_ms in queries:
        try:
            placed, figures = place_query(
                request, points_ms, view, around.before(rank), {}, settings
            )
        except (NoNode, BoundUnattainable, DeadlineUnattainable, SolverStopped) as refusal:
            yield Outcome(rank=rank, refusal=str(refusal))
        else:
            yield Outcome(rank=rank, placements=tuple(placed), figures=figures)


def placing_here(view: NetworkView, settings: Settings) -> PlaceRound:
    """A function that places rounds in this process."""

    def place(queries: Sequence[Candidate], around: Around) -> Iterable[Outcome]:
        return place_apart(queries, around, view, settings)

    return place


def _expected(queries: Sequence[Candidate], view: NetworkView, load: Load) -> Iterator[IntArray]:
    """Nodes that each query is expected to put replicas on, given those before it."""
    for query in queries:
        nodes: list[IntArray] = []
        for name in query.request.graph.to_place:
            # As candidates are looked for: distances are round trips, prices one way.
            nodes.append(view.nearest(query.points_ms[name], 2 * load.price_ms(), REPLICAS))
            load = load.with_replicas(view.names(nodes[-1]))
        yield np.concatenate([np.empty(0, dtype=np.int64), *nodes])


def _accept(
    queries: Sequence[Candidate],
    outcomes: Sequence[Outcome],
    around: Around,
    view: NetworkView,
    excess: int,
) -> tuple[Load, list[Outcome]]:
    """The load after a round, and the accepted outcomes."""
    load = around.start
    nodes = len(view.nodes)
    # Replicas beyond the expected ones, of the queries gone through.
    surplus = np.zeros(nodes, dtype=np.int64)
    accepted: list[Outcome] = []
    for query, outcome, expected in zip(queries, outcomes, around.expected, strict=True):
        pairs = {p.operator: (p.primary, p.secondary) for p in outcome.placements}
        after = load.with_operators(query.request.graph, pairs)
        replicas = after.replicas - load.replicas
        taken = replicas > 0
        fits = not np.any(after.room_cores()[taken] < -ROUNDING_CORES)
        # The first one was placed around the true load, by a placer that may know no capacity.
        if outcome.rank == 0 or (fits and not np.any(surplus[taken] > excess)):
            accepted.append(outcome)
            load = after
            surplus += replicas
        surplus -= np.bincount(expected, minlength=nodes)
    return load, accepted


def _wrap(
    requests: Sequence[Request], outcomes: Sequence[Outcome], rounds: int, placings: int
) -> BulkPlan:
    placed = [placed for outcome in outcomes for placed in outcome.placements]
    figures = [outcome.figures for outcome in outcomes if outcome.figures is not None]
    return BulkPlan(
        plan=Plan(placements=tuple(placed), queries=tuple(figures)),
        refused={
            request.graph.name: outcome.refusal
            for request, outcome in zip(requests, outcomes, strict=True)
            if outcome.refusal
        },
        rounds=rounds,
        placings=placings,
    )


def _rank(outcome: Outcome) -> int:
    return outcome.rank
