"""Least sums small enough to see."""

from __future__ import annotations

import math

import numpy as np

from placement.min_sum import Factor, cheapest, min_marginals

SIZES = {"a": 2, "b": 2, "c": 3}
CHAIN = [
    Factor((), np.array(7.0)),
    Factor(("a",), np.array([0.0, 1.0])),
    Factor(("a", "b"), np.array([[5.0, 9.0], [1.0, 2.0]])),
    Factor(("c",), np.array([4.0, 3.0, 3.0])),
]


def test_the_least_sum_is_over_all_variables_together() -> None:
    """a = 1 costs more by itself; of equal values the first wins."""
    assert cheapest(CHAIN, SIZES) == ({"a": 1, "b": 0, "c": 1}, 12.0)


def test_a_min_marginal_is_the_least_sum_with_that_value() -> None:
    marginals, least = min_marginals(CHAIN, SIZES)
    assert least == 12.0
    # Of what is connected with the variable; the constant belongs to none.
    assert marginals["a"].tolist() == [5.0, 2.0]
    assert marginals["b"].tolist() == [2.0, 3.0]
    assert marginals["c"].tolist() == [4.0, 3.0, 3.0]


def test_values_that_cannot_be_are_infinite_and_leave_the_others_alone() -> None:
    factors = [Factor(("a", "b"), np.array([[math.inf, math.inf], [3.0, math.inf]]))]
    marginals, least = min_marginals(factors, {"a": 2, "b": 2})
    assert least == 3.0
    assert marginals["a"].tolist() == [math.inf, 3.0]
    assert marginals["b"].tolist() == [3.0, math.inf]


def test_no_finite_sum_is_told_by_an_infinite_one() -> None:
    factors = [Factor(("a",), np.array([math.inf, math.inf]))]
    chosen, total = cheapest(factors, {"a": 2})
    assert chosen.keys() == {"a"}
    assert total == math.inf
    assert min_marginals(factors, {"a": 2})[1] == math.inf


def test_a_factor_over_fewer_values_is_cut_along_every_axis() -> None:
    kept = {"a": np.array([1]), "b": np.array([0, 1])}
    assert CHAIN[2].only(kept).costs.tolist() == [[1.0, 2.0]]
    assert float(CHAIN[0].only(kept).costs) == 7.0
