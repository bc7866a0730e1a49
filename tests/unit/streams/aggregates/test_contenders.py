"""First, last, least and greatest values of groups."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from streams.aggregates.contenders import ContenderLists, Contenders
from streams.aggregates.folded_groups import folds
from streams.plan.program import AggregatePlan
from streams.vectors.state import SnapshotError
from streams.vectors.vector import Array, Vector
from tests.unit.streams.running import program

COLUMNS = "min(i) AS a, max(x) AS b, first(i) AS c, last(b) AS d, exact_sum(x) AS e"


@pytest.mark.parametrize(
    ("source", "keys", "in_order"),
    [
        ("s [RANGE 1 SECOND]", "k", True),
        ("s [ROWS 5]", "i", True),
        ("s [UNBOUNDED]", "k", True),
        ("s [SESSION 1 SECOND PARTITION BY b]", "k", True),
        ("s [PARTITION BY k ROWS 2]", "k", True),
        ("s [PARTITION BY k ROWS 2 RANGE 1 SECOND]", "i, k", True),
        ("s [PARTITION BY k ROWS 2]", "i", False),
        ("s [PARTITION BY k, b ROWS 2]", "k", False),
    ],
)
def test_values_are_kept_in_arrays_where_rows_leave_in_order(
    source: str, keys: str, in_order: bool
) -> None:
    made = program(f"ISTREAM(SELECT {COLUMNS} FROM {source} GROUP BY {keys})")
    child = made.selects[0].child
    assert child.group is not None
    assert made.in_order(child) is in_order
    assert folds(child.group, in_order=made.in_order(child)) is in_order


def test_rows_of_a_join_leave_in_no_order() -> None:
    text = "SELECT max(s.i) AS m FROM s [RANGE 9 SECONDS], t [RANGE 1 SECOND] WHERE s.k = t.k"
    made = program(f"ISTREAM({text})")
    assert not made.in_order(made.selects[0].child)


def test_only_values_that_may_be_best_are_kept() -> None:
    least = Contenders("min", stays=False)
    for identity, value in enumerate([5, 3, 4, 9, 7]):
        least.enter((identity, value))
    assert least.save() == [[1, 2, 4], [3, 4, 7]]
    for identity, best in [(0, 3), (1, 4), (2, 7), (3, 7)]:
        least.leave((identity, 0))
        assert least.result() == best
    least.leave((4, 7))
    assert least.result() is None


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        *product(("first", "last"), ("int", "float", "bool")),
        *product(("min", "max"), ("int", "float")),
    ],
)
def test_lists_and_single_groups_save_the_same(function: str, kind: str) -> None:
    rng = np.random.default_rng(7)
    values: Array = {
        "int": rng.choice([0, -1, 2**63 - 1, -(2**63), 5], 40),
        "float": rng.choice([0.0, 1e308, -5e-324, -2.5], 40),
        "bool": rng.choice([True, False], 40),
    }[kind]
    plan = AggregatePlan(function=function, argument=None, kind=kind)
    lists = ContenderLists(plan, stays=False)
    lists.allocate(2)
    codes = np.array([0, 1] * 20, dtype=np.int32)
    ids = np.arange(40)
    # All rows of one group, then all of the other.
    order = np.argsort(codes, kind="stable")
    lists.step(
        Vector(values[order], None),
        np.arange(40),
        codes[order],
        np.ones(40, dtype=np.bool_),
        ids[order],
    )
    groups = [Contenders(function, stays=False) for _ in range(2)]
    owners: list[int] = codes.tolist()
    entered: list[Any] = values.tolist()
    for code, one in zip(owners, enumerate(entered), strict=True):
        groups[code].enter(one)
    saved = [group.save() for group in groups]
    both = np.array([1, 0], dtype=np.int32)
    assert repr(lists.saved(both)(slice(2))) == repr(saved[::-1])
    other = ContenderLists(plan, stays=False)
    other.allocate(3)
    moved = np.array([2, 0], dtype=np.int32)
    other.take(moved, saved)
    assert repr(other.saved(moved)(slice(2))) == repr(saved)
    assert repr(other.result(moved).to_list()) == repr([group.result() for group in groups])


def test_what_is_no_list_of_values_is_refused() -> None:
    with pytest.raises(SnapshotError, match="not the values of first"):
        Contenders("first", stays=False).load([[1], []])
