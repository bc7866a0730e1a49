"""Descent: a query goes on to cheaper places until no single change makes it cheaper.

Planning ends with it, so what was just planned is a local optimum of the one cost
(`placement.evaluation.cost`) among the changes that rebalancing knows (`candidate_moves`), and
rebalancing finds nothing to do. Rebalancing looks at all queries and takes the best change of all,
because each costs a move. Here nothing runs yet: one operator or group after the other takes its
best legal change, whatever it gains.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from foundation.arrays import FloatArray
from placement.evaluation.evaluator import PlacementBatch
from placement.evaluation.load import Load, LoadDelta
from placement.network import NetworkView
from placement.rebalancing.candidate_moves import ROUNDING, CandidateMoves, Group, hosts_near
from placement.rebalancing.move_evaluation import LEGAL, MoveEvaluation
from placement.rebalancing.moves import RebalanceSettings
from placement.rebalancing.running import RunningQuery
from placement.settings import Settings

MORE_TRIED = 64
"""Cheaper placements of which the legality is checked at once if the cheapest is not legal."""


def descend(query: RunningQuery, load: Load, view: NetworkView, settings: Settings) -> bool:
    """Have a query that is about to run where no change makes it cheaper.

    Parameters
    ----------
    query
        With legal places; these are changed.
    load
        Of everything, this query included.

    Returns
    -------
    bool
        Whether anything changed.
    """
    targets = hosts_near(query, load, view, settings)
    nodes = np.union1d(targets, query.nodes(view))
    evaluation = MoveEvaluation(query, view, nodes, {}, settings, RebalanceSettings())
    moves = CandidateMoves(query, evaluation, targets, load)
    least = ROUNDING * (evaluation.usage + load.total_price_bytes())
    changed = False

    def improved(groups: Sequence[Group]) -> bool:
        """Go through the groups until none of them can be elsewhere."""
        same = 0
        found = False
        for group in itertools.cycle(groups):
            if same == len(groups):
                break
            batch, _, gains = moves.of(group)
            best = _best(evaluation, batch, gains, least, moves.load)
            same += 1
            if best is not None:
                row, delta = best
                moves.load = moves.load.with_delta(delta)
                query.settle(batch, row)
                evaluation.start_from(query, group)
                same, found = 0, True
                if len(group) > 1:
                    break
        return found

    while improved(moves.singles()) or improved(moves.groups()):
        changed = True
    return changed


def _best(
    evaluation: MoveEvaluation, batch: PlacementBatch, gains: FloatArray, least: float, load: Load
) -> tuple[int, LoadDelta] | None:
    """The row of the legal placement that gains most; None if none gains enough."""
    order = np.argsort(-gains, kind="stable")[: np.count_nonzero(gains > least)]
    start, count = 0, 1
    while start < len(order):
        rows = order[start : start + count]
        some = batch.take(rows)
        for at in np.flatnonzero(evaluation.findings(some) == LEGAL).tolist():
            delta = evaluation.load_delta(some.take(slice(at, at + 1)))
            if load.has_room_for(delta, 1)[0]:
                return int(rows[at]), delta
        start, count = start + count, MORE_TRIED
    return None
