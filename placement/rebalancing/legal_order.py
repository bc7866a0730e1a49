"""An order of the moves of a change in which each leaves a legal placement.

Room on nodes is not checked on the way: the moves of a change bring replicas to one node only,
which carries most when all are done.
"""

from __future__ import annotations

from collections.abc import Sequence

from placement.evaluation.evaluator import PlacementBatch, stacked
from placement.rebalancing.move_evaluation import LEGAL, ChangeStep, MoveEvaluation

ORDERS_TRIED = 64
"""Placements on the way that are looked beyond before a change counts as having no legal order.
Changes have few moves, and nearly always the first order is legal."""


def legal_order(
    evaluation: MoveEvaluation, batch: PlacementBatch, option: int
) -> list[ChangeStep] | None:
    """Moves to one of the placements of which every prefix is legal; None if none is found.

    Operators upstream move first if that is legal.
    """
    steps = evaluation.steps(batch, option)
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
        reached = stacked([_after(evaluation.base, longer) for _, longer in following])
        legal = evaluation.findings(reached) == LEGAL
        ways += [entry for entry, ok in zip(following, legal, strict=True) if ok][::-1]
    return None


def after_each(base: PlacementBatch, order: Sequence[ChangeStep]) -> PlacementBatch:
    """Placements after each of the moves."""
    return stacked([_after(base, order[: i + 1]) for i in range(len(order))])


def _after(base: PlacementBatch, done: Sequence[ChangeStep]) -> PlacementBatch:
    batch = base.repeated(1)
    for step in done:
        batch.primaries[0, step.operator], batch.secondaries[0, step.operator] = step.after
    return batch
