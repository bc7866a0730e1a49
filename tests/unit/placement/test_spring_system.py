"""Springs of several queries in one set of arrays."""

from __future__ import annotations

import numpy as np
import pytest

from foundation.arrays import FloatArray
from placement.errors import GraphError
from placement.graph import Link, Operator, QueryGraph
from placement.spring_system import MIN_RATE_BYTES_S, SpringSystem


def chain(name: str, *rates: float) -> QueryGraph:
    """A source S, as many operators as there are gaps between the rates, a sink D."""
    free = [f"{name}.o{i}" for i in range(len(rates) - 1)]
    names = ["S", *free, "D"]
    return QueryGraph(
        name=name,
        operators=tuple(Operator(name=n, pinned=None if n in free else "node") for n in names),
        links=tuple(
            Link(source=source, target=target, rate_bytes_s=rate, tuples_s=1)
            for source, target, rate in zip(names, names[1:], rates, strict=False)
        ),
    )


def at(start: float, end: float) -> dict[str, FloatArray]:
    return {"S": np.array([start, 0.0]), "D": np.array([end, 0.0])}


one, direct, two = chain("one", 3, 1), chain("direct", 7), chain("two", 5, 5, 0)
springs = SpringSystem.of([one, direct, two], [at(0, 8), at(0, 1), at(0, 30)])


def test_every_link_that_can_move_is_a_spring():
    assert springs.names == (("one.o0",), (), ("two.o0", "two.o1"))
    assert springs.query_of_body.tolist() == [0, 2, 2]
    assert springs.query_of_spring.tolist() == [0, 0, 2, 2, 2]
    assert springs.ends[springs.ends[:, 1] < 3].tolist() == [[1, 2]]


def test_an_idle_link_is_a_weak_spring():
    assert springs.rates.tolist() == [3, 1, 5, 5, MIN_RATE_BYTES_S]


def test_forces_balance_at_the_weighted_mean():
    points = springs.wrap(springs.balance(springs.rates))
    assert points[0]["one.o0"] == pytest.approx([2, 0])
    assert points[1] == {}
    # Springs in a row have lengths in inverse proportion to their constants: 1/5, 1/5 and 1/1.
    assert points[2]["two.o0"] == pytest.approx([30 / 7, 0])
    assert points[2]["two.o1"] == pytest.approx([60 / 7, 0])


def test_other_constants_balance_elsewhere():
    points = springs.wrap(springs.balance(np.array([1.0, 1, 1, 1, 1])))
    assert points[0]["one.o0"] == pytest.approx([4, 0])
    assert points[2]["two.o1"] == pytest.approx([20, 0])


def test_lengths_and_their_sums():
    points_ms = np.array([[3.0, 4.0], [10, 0], [10, 0]])
    lengths_ms = springs.lengths_ms(points_ms)
    assert sorted(lengths_ms[:2].tolist()) == pytest.approx(sorted([5, 41**0.5]))
    assert sorted(lengths_ms[2:].tolist()) == pytest.approx([0, 10, 20])
    assert springs.by_query(lengths_ms) == pytest.approx([5 + 41**0.5, 0, 30])
    assert springs.greatest(lengths_ms) == pytest.approx([41**0.5, 0, 20])


@pytest.mark.parametrize("wanted", [[True, False, False], [False, True, True], [False] * 3])
def test_some_queries_alone_balance_as_among_others(wanted: list[bool]):
    some = springs.only(np.array(wanted))
    together = springs.wrap(springs.balance(springs.rates))
    expected = [points for points, is_wanted in zip(together, wanted, strict=True) if is_wanted]
    alone = some.wrap(some.balance(some.rates))
    assert [list(points) for points in alone] == [list(points) for points in expected]
    for points, same in zip(alone, expected, strict=True):
        for name, point_ms in points.items():
            assert point_ms == pytest.approx(same[name])


def test_no_query_at_all():
    none = SpringSystem.of([], [])
    assert none.wrap(none.balance(none.rates)) == []


def test_a_pinned_operator_without_position_is_named():
    with pytest.raises(GraphError, match=r"query one, operator D: .*no position"):
        SpringSystem.of([one], [{"S": np.zeros(2)}])


def test_a_position_of_another_dimension_is_named():
    with pytest.raises(GraphError, match=r"query one, operator D: .*\(3,\)"):
        SpringSystem.of([one], [{"S": np.zeros(2), "D": np.zeros(3)}])


def test_a_position_that_is_none_is_named():
    with pytest.raises(GraphError, match=r"query two, operator D: .*nan"):
        SpringSystem.of([one, two], [at(0, 1), at(0, float("nan"))])
