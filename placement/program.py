"""A mixed-integer linear program as it is written, column by column and row by row, for HiGHS."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from foundation.arrays import FloatArray, IntArray
from placement.errors import SettingsError, check_numbers

Term = tuple[int, float]
"""A column and its factor."""


ANY_NODES = 2**31 - 1
"""HiGHS's own limit of search nodes."""

OPTIMAL, INFEASIBLE, FAILED = 0, 2, 4
"""The status codes of `scipy.optimize.milp`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MilpSettings:
    """When HiGHS may stop.

    Attributes
    ----------
    gap
        Share of the cost that may separate it from its proven bound, ≥ 0.
    time_limit_s
        After which the best placement so far is taken, > 0.
    node_limit
        Nodes of the search tree after which it is; None: any number.
    """

    gap: float = 1e-6
    time_limit_s: float = 60.0
    node_limit: int | None = None

    def __post_init__(self) -> None:
        check_numbers(self, gap="≥ 0")
        if not self.time_limit_s > 0:
            raise SettingsError(f"MilpSettings: time_limit_s {self.time_limit_s} is not > 0")
        if self.node_limit is not None:
            check_numbers(self, node_limit="≥ 1")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MilpResult:
    """The result of HiGHS.

    Attributes
    ----------
    x
        Value by column; None if no solution was found.
    bound
        No solution has a smaller objective.
    optimal, infeasible
        Whether it was proven that x is best within the gap, or that there is none.
    message
        HiGHS's own words.
    """

    x: FloatArray | None
    bound: float
    optimal: bool
    infeasible: bool
    message: str


class IntegerProgram:
    """min Σ cost·x with lower ≤ A·x ≤ upper, x within bounds, some of it whole."""

    def __init__(self) -> None:
        self._cost: list[float] = []
        self._low: list[float] = []
        self._high: list[float] = []
        self._whole: list[int] = []
        self._rows: list[int] = []
        self._columns: list[int] = []
        self._values: list[float] = []
        self._lower: list[float] = []
        self._upper: list[float] = []

    def column(
        self,
        *,
        cost: float = 0.0,
        low: float = 0.0,
        high: float = math.inf,
        whole: bool = False,
    ) -> int:
        """A variable; its index."""
        self._cost.append(cost)
        self._low.append(low)
        self._high.append(high)
        self._whole.append(int(whole))
        return len(self._cost) - 1

    def columns(
        self, cost: FloatArray, *, high: FloatArray | float = math.inf, whole: bool = False
    ) -> IntArray:
        """Variables ≥ 0, one for each cost; their indices, in the shape of the costs."""
        first = len(self._cost)
        self._cost += cost.ravel().tolist()
        self._low += [0.0] * cost.size
        self._high += np.broadcast_to(high, cost.shape).astype(np.float64).ravel().tolist()
        self._whole += [int(whole)] * cost.size
        return np.arange(first, first + cost.size, dtype=np.int64).reshape(cost.shape)

    def switch(self, *, cost: float = 0.0, possible: bool = True) -> int:
        """A variable that is 0 or 1, or always 0."""
        return self.column(cost=cost, high=float(possible), whole=True)

    def row(
        self, terms: Sequence[Term], *, lower: float = -math.inf, upper: float = math.inf
    ) -> None:
        """Σ factor·x of the terms, between two limits. A column may occur in several terms."""
        for column, factor in terms:
            self._rows.append(len(self._lower))
            self._columns.append(column)
            self._values.append(factor)
        self._lower.append(lower)
        self._upper.append(upper)

    def objective(self, x: FloatArray) -> float:
        """Σ cost·x."""
        return float(np.array(self._cost) @ x)

    def add_cost(self, column: int, cost: float) -> None:
        """Add to what a variable costs."""
        self._cost[column] += cost

    def cap(self, objective: float) -> None:
        """Only solutions with at most this objective."""
        self.row([(at, cost) for at, cost in enumerate(self._cost) if cost], upper=objective)

    def minimise(self, cost: Mapping[int, float]) -> None:
        """Another objective: cost by column, 0 for those not named."""
        self._cost = [cost.get(column, 0.0) for column in range(len(self._cost))]

    def fix(self, column: int, value: float) -> None:
        """Give a variable its value."""
        self._low[column] = self._high[column] = value

    def solve(self, settings: MilpSettings, *, largest_cost: float | None = None) -> MilpResult:
        """Minimise, within the gap and the limits of the settings.

        HiGHS's presolve takes some programs for infeasible that have solutions. So such a program
        is solved again without it, within the same limits.

        Parameters
        ----------
        largest_cost
            Value that the objective is scaled to while it is minimised: HiGHS's tolerances are
            absolute, 10⁻⁶ and less. None: it is taken as it is.
        """
        cost, scale = np.array(self._cost), 1.0
        if largest_cost is not None and cost.max(initial=0.0) > np.finfo(np.float64).tiny:
            scale = largest_cost / float(cost.max())
        entries = np.array(self._values), (np.array(self._rows), np.array(self._columns))
        matrix = csr_array(entries, shape=(len(self._lower), len(self._cost)))
        attempts = (
            milp(
                cost * scale,
                integrality=np.array(self._whole),
                bounds=Bounds(np.array(self._low), np.array(self._high)),
                constraints=LinearConstraint(matrix, np.array(self._lower), np.array(self._upper)),
                options={
                    "mip_rel_gap": settings.gap,
                    "time_limit": settings.time_limit_s,
                    "node_limit": ANY_NODES if settings.node_limit is None else settings.node_limit,
                    "presolve": presolve,
                },
            )
            for presolve in (True, False)
        )
        found = next(attempts)
        # HiGHS fails where a solution of the presolved program misses a tolerance of the program.
        if found.status in (INFEASIBLE, FAILED):
            plain = next(attempts)
            if plain.x is not None or found.status == FAILED:
                found = plain
        bound = found.mip_dual_bound
        if bound is None:
            # A linear program's optimum is its own bound.
            bound = found.fun if found.status == OPTIMAL else -math.inf
        return MilpResult(
            x=found.x,
            bound=float(bound) / scale,
            optimal=found.status == OPTIMAL,
            infeasible=found.status == INFEASIBLE,
            message=found.message,
        )
