"""Sine, cosine and powers against values computed with many more digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext

import numpy as np
import pytest

from foundation.arrays import FloatArray
from streams.arithmetic import elementary
from streams.arithmetic import elementary_tables as table

BITS = 300
rng = np.random.default_rng(5)


def exact_cosine(angle: float, *, quarters_back: int = 0) -> int:
    """cos(angle - quarters_back·π/2) in units of 2^-BITS, by the series and whole numbers."""
    numerator, denominator = angle.as_integer_ratio()
    quarter = table.PI // 2
    unit = 1 << table.BITS
    turns, rest = divmod(numerator * unit // denominator + quarter // 2, quarter)
    angle_scaled = (rest - quarter // 2) >> (table.BITS - BITS)
    quadrant = (turns - quarters_back) % 4
    # cos(y + n·π/2) = cos y, -sin y, -cos y, sin y.
    term = angle_scaled if quadrant % 2 else 1 << BITS
    n, total = quadrant % 2, 0
    while abs(term) > 1:
        total += term
        n += 2
        term = -term * angle_scaled * angle_scaled // (n * (n - 1) << 2 * BITS)
    return -total if quadrant in (1, 2) else total


def units_off(values: FloatArray, exact: list[int]) -> float:
    """The greatest error in units in the last place."""
    worst = 0.0
    for value, scaled in zip(values.tolist(), exact, strict=True):
        numerator, denominator = value.as_integer_ratio()
        error = abs((numerator << BITS) // denominator - scaled) / (1 << BITS)
        worst = max(worst, error / float(np.spacing(abs(scaled / (1 << BITS)))))
    return worst


sizes = rng.integers(30, 1023, 200).tolist()
huge = np.array(
    [math.ldexp(float(one), size) for one, size in zip(rng.random(200), sizes, strict=True)]
)
angles: dict[str, FloatArray] = {
    "small": rng.uniform(-1, 1, 500),
    "of degrees": rng.uniform(-180, 180, 500) * (math.pi / 180),
    "large": rng.uniform(-1e7, 1e7, 300),
    "huge": huge,
    "near multiples of a quarter": np.arange(-200.0, 200.0) * (math.pi / 2),
    "near steps of the table": np.arange(-300.0, 300.0) * math.nextafter(math.pi / 512, 9),
    "whole": np.arange(1.0, 300),
}


@pytest.mark.parametrize("kind", list(angles))
@pytest.mark.parametrize(
    ("function", "quarters_back"), [(elementary.cosine, 0), (elementary.sine, 1)]
)
def test_sine_and_cosine_are_within_one_unit(
    kind: str, function: Callable[[FloatArray], FloatArray], quarters_back: int
) -> None:
    given = angles[kind][angles[kind] != 0]
    exact = [exact_cosine(angle, quarters_back=quarters_back) for angle in given.tolist()]
    with np.errstate(all="ignore"):
        values = function(given)
    assert units_off(values, exact) < 0.85


def test_sine_and_cosine_of_edge_values() -> None:
    with np.errstate(all="ignore"):
        edges = np.array([0.0, 5e-324, -1e-310, math.inf, math.nan])
        assert elementary.cosine(edges)[:3].tolist() == [1, 1, 1]
        assert elementary.sine(edges)[:3].tolist() == [0, 5e-324, -1e-310]
        assert np.isnan(elementary.cosine(edges)[3:]).all()
        assert np.isnan(elementary.sine(edges)[3:]).all()
    given = rng.uniform(-100, 100, 1000)
    assert np.array_equal(elementary.cosine(given), elementary.cosine(-given))
    assert np.array_equal(elementary.sine(given), -elementary.sine(-given))


powers = {
    "moderate": (rng.uniform(0.1, 100, 300), rng.uniform(-5, 5, 300)),
    "base near one": (rng.uniform(0.99, 1.01, 300), rng.uniform(-30000, 30000, 300)),
    "all sizes": (
        np.ldexp(rng.uniform(0.5, 1, 300), rng.integers(-1000, 1000, 300)),
        rng.uniform(-1, 1, 300),
    ),
    "subnormal base": (np.ldexp(1.0, rng.integers(-1074, -1022, 50)), rng.uniform(-0.9, 0.9, 50)),
}


@pytest.mark.parametrize("kind", list(powers))
def test_powers_are_hardly_worse_than_rounded_exactly(kind: str) -> None:
    bases, exponents = powers[kind]
    values = elementary.power(bases, exponents)
    worst = Decimal(0)
    with localcontext() as context:
        context.prec = 50
        for base, exponent, value in zip(
            bases.tolist(), exponents.tolist(), values.tolist(), strict=True
        ):
            exact = (Decimal(base).ln() * Decimal(exponent)).exp()
            worst = max(worst, abs(Decimal(value) - exact) / Decimal(math.ulp(value)))
    assert worst < Decimal("0.52")


def test_powers_that_are_floats_are_exact() -> None:
    bases = np.arange(1.0, 40)
    for exponent in range(-1, 12):
        given = bases if exponent >= 0 else 2.0**bases
        expected = [float(int(base) ** exponent) for base in given.tolist()]
        assert elementary.power(given, np.array(exponent)).tolist() == expected
    squares = bases * bases
    assert np.array_equal(elementary.power(squares, np.array(0.5)), bases)


def test_a_square_is_the_same_by_constant_and_by_column() -> None:
    bases = rng.uniform(-1e3, 1e3, 500)
    by_column = elementary.power(bases, np.where(np.arange(500) % 2, 2, 3))
    assert np.array_equal(by_column[1::2], elementary.power(bases, np.array(2))[1::2])


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, -1.0, -2.0, 0.5, -0.5, 1e300, -1e300])
@pytest.mark.parametrize("base", [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 1e308, -1e308, 5e-324])
def test_edges_of_powers_are_those_of_c(base: float, exponent: float) -> None:
    with np.errstate(all="ignore"):
        got = float(elementary.power(np.array([base]), np.array([exponent]))[0])
    try:
        expected = math.pow(base, exponent)
    except (OverflowError, ValueError):
        assert not math.isfinite(got)
    else:
        assert got == expected
        assert math.copysign(1, got) == math.copysign(1, expected)


def test_a_result_does_not_depend_on_its_neighbours() -> None:
    count = 2 * elementary.BLOCK + 7
    given = np.ldexp(rng.uniform(-1, 1, count), rng.integers(-20, 60, count))
    given[::1000] = math.pi / 2
    exponents = rng.uniform(-3, 3, count)
    with np.errstate(all="ignore"):
        for function in (elementary.cosine, elementary.sine):
            whole = function(given)
            for place in (0, 1, elementary.BLOCK, 5000, count - 1):
                alone = function(given[place : place + 1])
                assert alone.tobytes() == whole[place : place + 1].tobytes()
                assert float(function(given[place])) == whole[place]
        whole = elementary.power(given, exponents)
        halves = [
            elementary.power(given[part], exponents[part])
            for part in np.split(np.arange(count), [5, 5000])
        ]
        assert np.concatenate(halves).tobytes() == whole.tobytes()
    table_of_two = elementary.power(np.abs(given[:50, None]), exponents[None, :300])
    assert table_of_two.shape == (50, 300)
    one = elementary.power(np.abs(given[49]), exponents[299])
    assert float(one) == table_of_two[49, 299]


positive: dict[str, FloatArray] = {
    "moderate": rng.uniform(0.1, 100, 500),
    "near one": rng.uniform(0.99, 1.01, 500),
    "nearest to one": 1 + np.arange(-20.0, 20.0) * 2.0**-53,
    "all sizes": np.ldexp(rng.uniform(0.5, 1, 500), rng.integers(-1074, 1025, 500)),
    "whole": np.arange(1.0, 300),
}


@pytest.mark.parametrize("kind", list(positive))
def test_logarithms_are_hardly_worse_than_rounded_exactly(kind: str) -> None:
    given = positive[kind][positive[kind] > 0]
    worst = Decimal(0)
    with localcontext() as context:
        context.prec = 50
        for one, value in zip(given.tolist(), elementary.logarithm(given).tolist(), strict=True):
            exact = Decimal(one).ln()
            unit = Decimal(math.ulp(value)) if value else Decimal(1)
            worst = max(worst, abs(Decimal(value) - exact) / unit)
    assert worst < Decimal("0.52")


exponents_of_e: dict[str, FloatArray] = {
    "moderate": rng.uniform(-5, 5, 500),
    "small": np.ldexp(rng.uniform(-1, 1, 300), rng.integers(-60, 0, 300)),
    "all sizes": rng.uniform(-745, 709.7, 500),
    "whole": np.arange(-700.0, 700.0, 7),
}


@pytest.mark.parametrize("kind", list(exponents_of_e))
def test_exponentials_are_hardly_worse_than_rounded_exactly(kind: str) -> None:
    given = exponents_of_e[kind]
    worst = Decimal(0)
    with localcontext() as context:
        context.prec = 50
        for one, value in zip(given.tolist(), elementary.exponential(given).tolist(), strict=True):
            error = abs(Decimal(value) - Decimal(one).exp())
            worst = max(worst, error / Decimal(math.ulp(value)))
    # Subnormal results are rounded twice.
    assert worst < (Decimal(1) if kind == "all sizes" else Decimal("0.52"))


def test_edges_of_logarithms_and_exponentials() -> None:
    edges = np.array([1.0, 0.0, -0.0, -1.0, math.inf, -math.inf, math.nan])
    with np.errstate(all="ignore"):
        logarithms, exponentials = elementary.logarithm(edges), elementary.exponential(edges)
        assert elementary.exponential(np.array([709.782712893384, 709.79, 1e308]))[1:].tolist() == [
            math.inf,
            math.inf,
        ]
    assert logarithms[0] == 0
    assert np.isnan(logarithms[1:]).all()
    assert exponentials[:6].tolist()[1:] == [1, 1, 0.36787944117144233, math.inf, 0]
    assert math.isnan(exponentials[6])
    assert elementary.exponential(np.array([5e-324, -1e-300])).tolist() == [1, 1]
    assert elementary.logarithm(np.array(8.0)).shape == ()


def test_logarithms_and_exponentials_do_not_depend_on_their_neighbours() -> None:
    given = rng.uniform(0, 700, 2 * elementary.BLOCK + 7)
    for function in (elementary.logarithm, elementary.exponential):
        whole = function(given)
        halves = [function(part) for part in np.split(given, [5, 5000])]
        assert np.concatenate(halves).tobytes() == whole.tobytes()
        assert float(function(given[9])) == whole[9]
