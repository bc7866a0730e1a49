"""Programs as they are written and solved."""

from __future__ import annotations

import math

import pytest

from placement.errors import SettingsError
from placement.program import IntegerProgram, MilpSettings


def knapsack() -> tuple[IntegerProgram, list[int]]:
    """Of 3, 4 and 5 at most 8: −3 and −5 together are best."""
    program = IntegerProgram()
    columns = [program.switch(cost=-value) for value in (3.0, 4.0, 5.0)]
    program.row([(at, size) for at, size in zip(columns, (3.0, 4.0, 5.0), strict=True)], upper=8)
    return program, columns


def test_whole_numbers_at_the_least_cost() -> None:
    program, columns = knapsack()
    result = program.solve(MilpSettings(gap=0.0))
    assert result.x is not None
    assert [round(result.x[at]) for at in columns] == [1, 0, 1]
    assert (result.optimal, result.infeasible) == (True, False)
    assert result.bound == pytest.approx(-8)
    assert program.objective(result.x) == pytest.approx(-8)


def test_a_linear_program_is_its_own_bound() -> None:
    program = IntegerProgram()
    x, y = program.column(cost=1.0), program.column(cost=2.0, high=3.0)
    program.row([(x, 1.0), (y, 1.0)], lower=5.0, upper=math.inf)
    result = program.solve(MilpSettings())
    assert result.bound == pytest.approx(5)


def test_a_column_may_occur_in_several_terms() -> None:
    program = IntegerProgram()
    x = program.column(cost=1.0)
    program.row([(x, 1.0), (x, 1.0)], lower=6.0)
    result = program.solve(MilpSettings())
    assert result.x is not None
    assert result.x[x] == pytest.approx(3)


def test_a_cap_below_the_least_is_infeasible() -> None:
    program, _ = knapsack()
    program.cap(-8.5)
    result = program.solve(MilpSettings())
    assert result.x is None
    assert result.infeasible


def test_fixed_impossible_and_dearer_columns() -> None:
    program, columns = knapsack()
    program.fix(columns[1], 1.0)
    program.add_cost(columns[0], 100.0)
    never = program.switch(cost=-50.0, possible=False)
    result = program.solve(MilpSettings())
    assert result.x is not None
    assert [round(result.x[at]) for at in (*columns, never)] == [0, 1, 0, 0]


def test_another_objective() -> None:
    program, columns = knapsack()
    program.minimise({columns[1]: -1.0})
    result = program.solve(MilpSettings())
    assert result.x is not None
    assert round(result.x[columns[1]]) == 1
    assert program.objective(result.x) == pytest.approx(-1)


@pytest.mark.parametrize(
    "wrong", [{"gap": -1.0}, {"gap": math.nan}, {"time_limit_s": 0.0}, {"node_limit": 0}]
)
def test_limits_are_checked(wrong: dict[str, float]) -> None:
    (name,) = wrong
    with pytest.raises(SettingsError, match=name):
        MilpSettings(**wrong)  # pyright: ignore[reportArgumentType]
