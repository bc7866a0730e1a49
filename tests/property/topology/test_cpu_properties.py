"""Scaling functions never fall, are never negative, and leave an idle node where it is."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from topology.cpu import MAX_EXPONENT, Linear, PiecewiseLinear, Power, Queueing, Scaling

lengths_ms = st.floats(0, 1e4)
loads = st.floats(0, 1e3)


@st.composite
def tables(draw: st.DrawFn) -> PiecewiseLinear:
    """Points a thousandth of a core apart at least, as lines through closer ones are vertical."""
    steps = draw(st.lists(st.tuples(st.floats(1e-3, 1), lengths_ms), min_size=1, max_size=8))
    points = [(0.0, draw(lengths_ms))]
    for step, rise_ms in steps:
        points.append((points[-1][0] + step, points[-1][1] + rise_ms))
    return PiecewiseLinear(tuple(points))


through_nothing = st.one_of(
    st.builds(Linear, lengths_ms),
    st.builds(Power, lengths_ms, st.floats(0.1, MAX_EXPONENT)),
    st.builds(Queueing, lengths_ms),
)
scalings = st.one_of(through_nothing, tables())


@given(scalings, st.lists(loads, min_size=1, max_size=20))
def test_never_negative_and_never_falling(scaling: Scaling, given_loads: list[float]):
    axis_ms = scaling.axis_ms(np.sort(np.array(given_loads)))
    assert np.all(np.isfinite(axis_ms))
    assert np.all(axis_ms >= 0)
    # Rounding may take back the last digit of a rise.
    assert np.all(np.diff(axis_ms) >= -1e-12 * axis_ms[1:])


@given(through_nothing)
def test_an_idle_node_is_as_far_as_its_packets_travel(scaling: Scaling):
    assert scaling.ms(0) == 0


@given(scalings, st.lists(loads, min_size=1, max_size=20))
def test_one_by_one_is_as_all_at_once(scaling: Scaling, given_loads: list[float]):
    together_ms = scaling.axis_ms(np.array(given_loads))
    np.testing.assert_allclose(together_ms, [scaling.ms(load) for load in given_loads], rtol=1e-12)


@given(tables())
def test_a_table_goes_through_its_points(table: PiecewiseLinear):
    loads_, given_ms = np.array(table.points).T
    np.testing.assert_allclose(table.axis_ms(loads_), given_ms, rtol=1e-9, atol=1e-9)
