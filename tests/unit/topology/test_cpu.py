"""The CPU scaling functions: their values, and what no machine has."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from topology.cpu import (
    CEILING,
    DEFAULT_SCALING,
    CpuLoadError,
    Linear,
    PiecewiseLinear,
    Power,
    Queueing,
    Scaling,
    ScalingError,
)

CURVE = ((0.0, 1.0), (0.5, 4.0), (1.0, 20.0))


@pytest.mark.parametrize(
    ("scaling", "load", "ms"),
    [
        (Linear(10), 0.5, 5),
        (Linear(0), 3, 0),
        (Power(10, exponent=2), 0.5, 2.5),
        (Power(8, exponent=1 / 3), 8, 16),
        (Queueing(5), 0.5, 5),
        (Queueing(5), 0.75, 15),
        (PiecewiseLinear(CURVE), 0, 1),
        (PiecewiseLinear(CURVE), 0.25, 2.5),
        (PiecewiseLinear(CURVE), 1, 20),
    ],
)
def test_load_is_scaled(scaling: Scaling, load: float, ms: float):
    assert scaling.ms(load) == pytest.approx(ms)
    assert scaling.axis_ms(np.array([[load, 0]]))[0, 0] == pytest.approx(ms)


def test_queueing_rises_up_to_its_ceiling_and_no_further():
    assert Queueing(1).ms(CEILING - 0.01) < Queueing(1).ms(CEILING)
    assert Queueing(1).ms(1) == Queueing(1).ms(7) == pytest.approx(99)


def test_the_last_line_of_a_table_goes_on():
    """A node beyond the table is not as good as one at its end."""
    assert PiecewiseLinear(CURVE).ms(2) == pytest.approx(20 + 32)


@pytest.mark.parametrize("load", [-0.1, math.nan, math.inf])
@pytest.mark.parametrize("scaling", [Linear(1), Power(1, 2), Queueing(1), PiecewiseLinear(CURVE)])
def test_a_load_that_no_machine_has_is_refused(scaling: Scaling, load: float):
    with pytest.raises(CpuLoadError, match=f"CPU load {load} is not"):
        scaling.ms(load)
    with pytest.raises(CpuLoadError, match=f"CPU load {load} is not"):
        scaling.axis_ms(np.array([1, load]))


@pytest.mark.parametrize(
    ("make", "field", "value", "message"),
    [
        (lambda: Linear(-1), "ms_per_core", -1, "linear: ms_per_core -1 is not a number ≥ 0"),
        (lambda: Power(math.inf, 1), "ms_per_core", math.inf, "ms_per_core inf is not a number"),
        (lambda: Power(1, 0), "exponent", 0, r"power: exponent 0 is not in \(0, 10\]"),
        (lambda: Power(1, 11), "exponent", 11, "exponent 11 is not in"),
        (lambda: Queueing(-5), "service_ms", -5, "queueing: service_ms -5 is not"),
        (lambda: PiecewiseLinear(()), "points", (), "has fewer than two points"),
        (
            lambda: PiecewiseLinear(((0, 1), (1, -2))),
            "points",
            ((0, 1), (1, -2)),
            "a point 1, -2 that is",
        ),
        (
            lambda: PiecewiseLinear(((1, 1), (2, 2))),
            "points",
            ((1, 1), (2, 2)),
            "does not begin at load 0",
        ),
        (
            lambda: PiecewiseLinear(((0, 1), (0, 2))),
            "points",
            ((0, 1), (0, 2)),
            "not rise in load after 0",
        ),
        (
            lambda: PiecewiseLinear(((0, 3), (1, 2))),
            "points",
            ((0, 3), (1, 2)),
            "falls in ms after load 0",
        ),
    ],
)
def test_parameters_are_checked(
    make: Callable[[], Scaling], field: str, value: object, message: str
):
    with pytest.raises(ScalingError, match=message) as caught:
        make()
    assert (caught.value.field, caught.value.value) == (field, value)
    with pytest.raises(ScalingError, match="nan is not"):
        Power(1, math.nan)


@pytest.mark.parametrize(
    "scaling", [DEFAULT_SCALING, Power(10, 2), Queueing(5), PiecewiseLinear(CURVE), Linear(0)]
)
def test_a_scaling_function_travels_as_plain_data(scaling: Scaling):
    assert msgspec.json.decode(msgspec.json.encode(scaling), type=Scaling) == scaling


def test_what_arrives_is_checked_as_well():
    with pytest.raises(msgspec.ValidationError, match=r"exponent -1\.0 is not in"):
        msgspec.json.decode(b'{"function":"power","ms_per_core":1,"exponent":-1}', type=Scaling)
