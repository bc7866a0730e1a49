"""Least sums on random trees of factors, against all combinations of values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.min_sum import Factor, cheapest, min_marginals


def random_tree(rng: np.random.Generator) -> tuple[list[Factor], dict[str, int]]:
    """Factors over up to three variables, each sharing at most one with those before it."""
    sizes: dict[str, int] = {}

    def new() -> str:
        name = f"v{len(sizes)}"
        sizes[name] = int(rng.integers(1, 4))
        return name

    factors: list[Factor] = []
    for _ in range(int(rng.integers(1, 5))):
        shared = [f"v{rng.integers(len(sizes))}"] if sizes and rng.random() < 0.8 else []
        names = [*shared, *(new() for _ in range(int(rng.integers(1, 4)) - len(shared)))]
        rng.shuffle(names)
        costs = rng.uniform(0, 10, size=tuple(sizes[name] for name in names))
        costs[rng.random(costs.shape) < 0.15] = math.inf
        factors.append(Factor(tuple(names), costs))
    return factors, sizes


def all_sums(
    factors: list[Factor], sizes: dict[str, int]
) -> Iterator[tuple[dict[str, int], float]]:
    for values in product(*(range(size) for size in sizes.values())):
        chosen = dict(zip(sizes, values, strict=True))
        yield (
            chosen,
            sum(float(f.costs[tuple(chosen[name] for name in f.variables)]) for f in factors),
        )


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1))
def test_nothing_is_cheaper_than_the_cheapest(seed: int) -> None:
    factors, sizes = random_tree(np.random.default_rng(seed))
    chosen, total = cheapest(factors, sizes)
    sums = list(all_sums(factors, sizes))
    assert total == pytest.approx(min(each for _, each in sums))
    assert dict(chosen) in [values for values, each in sums if each == pytest.approx(total)]


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1))
def test_min_marginals_tell_the_least_sum_with_each_value(seed: int) -> None:
    factors, sizes = random_tree(np.random.default_rng(seed))
    marginals, least = min_marginals(factors, sizes)
    sums = list(all_sums(factors, sizes))
    assert least == pytest.approx(min(each for _, each in sums))
    if math.isfinite(least):
        for name, size in sizes.items():
            for value in range(size):
                with_it = min(each for values, each in sums if values[name] == value)
                # What is not connected with the variable is at its least in both.
                excess = marginals[name][value] - marginals[name].min()
                assert least + excess == pytest.approx(with_it)
