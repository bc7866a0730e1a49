"""The changes that one query has open to it, and an order of moves in which each is legal.

Room on nodes needs no look on the way: the moves of a change bring copies to one node only, which
has its most when all are done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from placement.network import NetworkView
from placement.rebalancing.batch_evaluation import PlacementBatch, stacked
from placement.rebalancing.candidate_moves import CandidateMoves
from placement.rebalancing.move_evaluation import LEGAL, REASONS, Step
from placement.rebalancing.moves import Reason, RebalanceSettings
from placement.rebalancing.running import NodeLoad, RunningQuery
from placement.settings import Settings
from topology.arrays import FloatArray

ORDERS_TRIED = 64
"""Placements on the way that are looked beyond before a change counts as having no legal order.
Changes have few moves, and nearly always the first order is legal."""


class LegalOrder:
    """One query's neighbouring placements, weighed.

    Attributes
    ----------
    query, scales
        What runs, and what changes of it are weighed with.
    weighed
        The options; the first is to change nothing.
    """

    def __init__(
        self,
        query: RunningQuery,
        node_load: NodeLoad,
        view: NetworkView,
        state_bytes: Mapping[str, float],
        settings: Settings,
        rebalancing: RebalanceSettings,
    ) -> None:
        candidate_moves = CandidateMoves(query, node_load, view, state_bytes, settings, rebalancing)
        self.query = query
        self.evaluation = candidate_moves.evaluation
        self.evaluated = self.evaluation.evaluate(candidate_moves.rows())
        self._graph = query.request.graph
        self._input_rates = np.array([self._graph.input_rate(name) for name in query.places])
        self._nodes = np.array(list(query.places.values()), dtype=np.int64).reshape(-1, 2)

    def cost(self, axis_ms: FloatArray) -> float:
        """The query's part of the objective: usage, and load prices of its copies, bytes."""
        return (
            self.evaluation.usage
            + float(self._input_rates @ axis_ms[self._nodes].sum(axis=1)) / 1e3
        )

    def legal_order(self, option: int) -> list[Step] | None:
        """Moves to an option of which every prefix is legal, upstream first where that serves.

        If there is none, the option is marked: `Reason.NO_LEGAL_ORDER`.
        """
        steps = self.evaluation.steps(self.evaluated.rows, option)
        operators = list(steps)
        total = sum(len(path) for path in steps.values())
        seen: set[tuple[int, ...]] = set()
        # Depth first, over how many steps of each operator are done.
        ways: list[tuple[tuple[int, ...], list[Step]]] = [((0,) * len(operators), [])]
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
            rows = stacked([self._after(longer) for _, longer in following])
            legal = self.evaluation.findings(rows) == LEGAL
            ways += [entry for entry, ok in zip(following, legal, strict=True) if ok][::-1]
        self.evaluated.findings[option] = REASONS.index(Reason.NO_LEGAL_ORDER)
        return None

    def after_each(self, order: Sequence[Step]) -> PlacementBatch:
        """Placements after each of the moves."""
        return stacked([self._after(order[: i + 1]) for i in range(len(order))])

    def settle(self, option: int) -> None:
        """Make it the placement that runs; these options are void then."""
        rows, nodes = self.evaluated.rows, self.evaluation.batch_evaluation.nodes
        for name, (primary, secondary) in list(self.query.places.items()):
            o = self.evaluation.batch_evaluation.column[name]
            after = int(nodes[rows.primaries[option, o]]), int(nodes[rows.secondaries[option, o]])
            shares_ms = self.query.shares_ms[name]
            # Whoever comes takes over what the copy that leaves was measured to cause.
            if after[0] == secondary or after[1] == primary:
                shares_ms = shares_ms[1], shares_ms[0]
            self.query.places[name], self.query.shares_ms[name] = after, shares_ms

    def _after(self, done: Sequence[Step]) -> PlacementBatch:
        rows = self.evaluation.base.repeated(1)
        for step in done:
            rows.primaries[0, step.operator], rows.secondaries[0, step.operator] = step.after
        return rows
