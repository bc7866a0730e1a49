"""What a rebalancing may improve, and by how much placements do.

Goals come in order. Each is improved only as far as those before it get no more than `WORSE` worse
than they were when their turn was over, and what was moved for them stays. What they measure falls
as they are improved:

==============  ==============================================================
goal            measure
==============  ==============================================================
network         the objective (`placement.evaluation.cost`), bytes
balance         Σ cores² over nodes, by what replicas need
recovery        Σ recovery times of operators, ms
deadline-slack  Σ latency of the slowest output / deadline, over queries
evacuate        replicas on a node
==============  ==============================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from foundation.arrays import FloatArray
from placement.evaluation.load import Load
from placement.rebalancing.move_evaluation import EvaluatedMoves, MoveEvaluation
from placement.rebalancing.running import RunningQuery

WORSE = 0.01
"""Share by which a goal may get worse for those after it."""


class GoalKind(Enum):
    """What is to be improved."""

    NETWORK = "network"
    BALANCE = "balance"
    RECOVERY = "recovery"
    SLACK = "deadline-slack"
    EVACUATE = "evacuate"


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal, and the index of the node that is to be evacuated, if it is that."""

    kind: GoalKind
    node: int = -1

    def measure(self, query: RunningQuery, evaluation: MoveEvaluation) -> float:
        """A query's own part of the measure; of network, without load prices, and of balance 0."""
        base = evaluation.base
        match self.kind:
            case GoalKind.NETWORK:
                return evaluation.usage
            case GoalKind.BALANCE:
                return 0.0
            case GoalKind.RECOVERY:
                recovery_ms = evaluation.recovery_ms(base)[0]
                return float(recovery_ms[evaluation.evaluator.placed].sum())
            case GoalKind.SLACK:
                return float(evaluation.evaluator.latency_ms(base)[0]) / query.request.deadline_ms
            case GoalKind.EVACUATE:
                return float(sum(pair.count(self.node) for pair in query.places.values()))

    def shared(self, load: Load) -> float:
        """The part of the measure that all queries share."""
        match self.kind:
            case GoalKind.NETWORK:
                return load.total_price_bytes()
            case GoalKind.BALANCE:
                return float(load.used_cores @ load.used_cores)
            case _:
                return 0.0

    def gains(
        self,
        query: RunningQuery,
        evaluation: MoveEvaluation,
        evaluated: EvaluatedMoves,
        load: Load,
    ) -> FloatArray:
        """By how much each placement of a query lowers the measure, shape (f,)."""
        rows, delta = len(evaluated.usage_gain), evaluated.load_delta
        match self.kind:
            case GoalKind.NETWORK:
                return evaluated.usage_gain - load.price_change(delta, rows)
            case GoalKind.BALANCE:
                used = load.used_cores[delta.nodes]
                more = (used + delta.cores) ** 2 - used**2
                return -np.bincount(delta.rows, more, minlength=rows).astype(np.float64)
            case GoalKind.RECOVERY:
                placed = evaluation.evaluator.placed
                after = evaluated.recovery_ms[:, placed].sum(axis=1)
            case GoalKind.SLACK:
                after = evaluated.latency_ms / query.request.deadline_ms
            case GoalKind.EVACUATE:
                placed, batch = evaluation.evaluator.placed, evaluated.batch
                after = (batch.primaries[:, placed] == self.node).sum(axis=1).astype(np.float64)
                after += (batch.secondaries[:, placed] == self.node).sum(axis=1)
        return self.measure(query, evaluation) - after


NETWORK = Goal(GoalKind.NETWORK)
