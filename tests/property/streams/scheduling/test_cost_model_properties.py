"""The cost model's recursion against least squares over all samples at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from streams.scheduling.cost_model import PRIOR_SPREAD, CostModel

samples_of = st.lists(st.tuples(st.integers(0, 200), st.floats(0, 1e6)), min_size=1, max_size=60)
per_tuple = st.floats(0.1, 1e4)
fixed = st.just(0.0) | st.floats(0.1, 1e4)


@settings(max_examples=200, deadline=None)
@given(samples_of, per_tuple, fixed, st.floats(1, 100))
def test_estimate_is_the_best_line_that_is_nowhere_negative(
    samples: list[tuple[int, float]], per_tuple_us: float, fixed_us: float, half_life: float
) -> None:
    model = CostModel(per_tuple_us, fixed_us, half_life=half_life)
    for tuples, took_us in samples:
        model.observe(tuples, took_us)
    assert model.fixed_us >= 0
    assert model.per_tuple_us >= 0
    # With nothing but empty batches b is not in the squares at all.
    assume(any(tuples for tuples, _ in samples))
    # The prior is one sample before the first, of its size.
    first = samples[0][0]
    n = np.array([first, *(tuples for tuples, _ in samples)], dtype=np.float64)
    t = np.array([fixed_us + per_tuple_us * first, *(took for _, took in samples)])
    root = 0.5 ** (np.arange(len(n))[::-1] / half_life / 2)
    mean_n, mean_t = np.average(n, weights=root**2), np.average(t, weights=root**2)
    expected = fixed_us + per_tuple_us * mean_n
    slope = per_tuple_us * (mean_t / expected if expected > 0 else 1.0)
    held = PRIOR_SPREAD * mean_n
    rows = np.vstack([np.column_stack([root, root * n]), [[0.0, held]]])
    targets = np.append(root * t, held * slope)
    (a, b), residual = nnls(rows, targets)
    mine = np.linalg.norm(rows @ [model.fixed_us, model.per_tuple_us] - targets)
    assert mine == pytest.approx(residual, rel=1e-6, abs=1e-3)
    scale = max(float(np.max(t)), 1.0)
    assert model.cost_us(round(mean_n)) == pytest.approx(a + b * round(mean_n), abs=1e-4 * scale)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 500), st.floats(1, 1e6), per_tuple, fixed, st.integers(1, 2000))
def test_batches_of_one_size_scale_the_prior(
    tuples: int, took_us: float, per_tuple_us: float, fixed_us: float, count: int
) -> None:
    model = CostModel(per_tuple_us, fixed_us, half_life=8)
    for _ in range(count):
        model.observe(tuples, took_us)
    share = fixed_us / (fixed_us + per_tuple_us * tuples)
    assert model.fixed_us == pytest.approx(share * model.cost_us(tuples), rel=1e-6, abs=1e-9)
    lowest, highest = sorted([took_us, fixed_us + per_tuple_us * tuples])
    assert lowest * (1 - 1e-9) <= model.cost_us(tuples) <= highest * (1 + 1e-9)


@settings(max_examples=100, deadline=None)
@given(per_tuple, fixed, st.floats(1, 1e3), st.floats(0, 1e4), st.integers(0, 2**32 - 1))
def test_exact_samples_of_different_sizes_are_learnt(
    per_tuple_us: float, fixed_us: float, b: float, a: float, seed: int
) -> None:
    model = CostModel(per_tuple_us, fixed_us, half_life=8)
    for tuples in np.random.default_rng(seed).integers(0, 100, size=300).tolist():
        model.observe(tuples, a + b * tuples)
    for tuples in (10, 50, 90):
        assert model.cost_us(tuples) == pytest.approx(a + b * tuples, rel=0.1)
