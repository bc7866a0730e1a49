"""Costs learnt from dispatches."""

from __future__ import annotations

import math

import pytest

from streams.scheduling.cost_model import CostModel


def test_before_anything_is_measured_the_prior_holds() -> None:
    model = CostModel(1000, 200)
    assert (model.per_tuple_us, model.fixed_us, model.samples) == (1000, 200, 0)
    assert model.cost_us(3) == 3200


def test_batches_of_different_sizes_tell_both_parts() -> None:
    model = CostModel(1000, 0)
    for sample in range(300):
        tuples = 1 + sample % 20
        model.observe(tuples, 700 + 40 * tuples)
    assert model.per_tuple_us == pytest.approx(40, rel=0.1)
    assert model.fixed_us == pytest.approx(700, rel=0.1)
    assert model.samples == 300


def test_batches_of_one_size_leave_the_proportion_as_it_was() -> None:
    model = CostModel(10, 300)
    for _ in range(2000):
        model.observe(100, 6500)
    assert model.cost_us(100) == pytest.approx(6500)
    assert model.fixed_us == pytest.approx(1500)
    assert model.per_tuple_us == pytest.approx(50)


def test_one_odd_sample_after_many_of_one_size_is_not_believed_at_once() -> None:
    model = CostModel(10, 0)
    for _ in range(2000):
        model.observe(100, 1000)
    model.observe(101, 3000)
    assert model.cost_us(100) == pytest.approx(1020, rel=0.02)
    assert model.per_tuple_us == pytest.approx(10, rel=0.1)


def test_parts_are_never_negative() -> None:
    falling, rising = CostModel(10, 0), CostModel(10, 0)
    for tuples in (1, 10) * 50:
        falling.observe(tuples, 1000 - 90 * tuples)
        rising.observe(tuples, tuples * tuples)
    assert falling.per_tuple_us == 0
    assert falling.fixed_us > 0
    assert rising.fixed_us == 0
    # A line without a fixed cost: Σ n·t / Σ n², of which 10 has nearly all the weight.
    assert rising.per_tuple_us == pytest.approx(9.92, rel=0.02)


def test_empty_batches_tell_the_fixed_part() -> None:
    model = CostModel(10, 100)
    for _ in range(500):
        model.observe(0, 200)
    assert model.fixed_us == pytest.approx(200, rel=0.01)
    assert model.per_tuple_us == pytest.approx(20, rel=0.01)
    free = CostModel(10, 0)
    free.observe(0, 50)
    assert free.fixed_us > 0


def test_old_samples_are_forgotten_by_half_in_a_half_life() -> None:
    model = CostModel(10, 0, half_life=8)
    for _ in range(400):
        model.observe(10, 100)
    for _ in range(8):
        model.observe(10, 300)
    assert model.cost_us(10) == pytest.approx(200)


@pytest.mark.parametrize(
    ("per_tuple_us", "fixed_us", "half_life"),
    [(0, 0, 1), (math.nan, 0, 1), (1, -1, 1), (1, math.inf, 1), (1, 0, 0)],
)
def test_refuses_a_prior_that_is_none(
    per_tuple_us: float, fixed_us: float, half_life: float
) -> None:
    with pytest.raises(ValueError, match="give a number"):
        CostModel(per_tuple_us, fixed_us, half_life=half_life)
