"""Points of least network usage where they are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from foundation.arrays import FloatArray
from placement.equilibrium import UsageSettings, least_usage, minimise
from placement.errors import GraphError, SettingsError
from placement.graph import MAX_RATE, Link, Operator, QueryGraph
from placement.spring_system import SpringSystem

corners = {"A": np.array([0.0, 0.0]), "B": np.array([60.0, 0.0]), "C": np.array([0.0, 60.0])}
exactly = UsageSettings(tolerance=1e-7, softening=1e-8, max_rounds=2000)


def graph(rates: dict[str, float], name: str = "q") -> QueryGraph:
    """Links such as "Aa": capitals are pinned, small letters free."""
    names = sorted({letter for pair in rates for letter in pair})
    return QueryGraph(
        name=name,
        operators=tuple(Operator(name=n, pinned="n" if n.isupper() else None) for n in names),
        links=tuple(
            Link(source=pair[0], target=pair[1], rate_bytes_s=rate, tuples_s=1)
            for pair, rate in rates.items()
        ),
    )


def usage(rates: dict[str, float], points_ms: dict[str, FloatArray]) -> float:
    return sum(
        rate * float(np.linalg.norm(points_ms[pair[0]] - points_ms[pair[1]])) / 2 / 1e3
        for pair, rate in rates.items()
    )


def at_rest(rates: dict[str, float]) -> dict[str, FloatArray]:
    """The points at which no force is left."""
    springs = SpringSystem.of([graph(rates)], [corners])
    (points_ms,) = springs.wrap(springs.balance(springs.rates))
    return points_ms


def test_equal_pulls_meet_at_the_fermat_point():
    """From it all sides of the triangle are seen under 120°: here on the diagonal."""
    (found,) = least_usage([graph({"Aa": 10, "Ba": 10, "aC": 10})], [corners], exactly)
    inset = 60 * (3 - math.sqrt(3)) / 6
    assert found.points_ms["a"] == pytest.approx([inset, inset], abs=1e-3)
    assert found.lower_bound <= found.network_usage <= found.lower_bound * (1 + 2e-7)


def test_the_forces_rest_elsewhere():
    points_ms = at_rest({"Aa": 10, "Ba": 10, "aC": 10})
    assert points_ms["a"] == pytest.approx([20, 20])


def test_the_majority_of_the_rate_has_its_way():
    """With more than half of all rates one neighbour alone decides: the optimum is on an anchor."""
    rates = {"Aa": 30.0, "Ba": 10, "aC": 10}
    (found,) = least_usage([graph(rates)], [corners])
    assert found.points_ms["a"] == pytest.approx([0, 0], abs=0.05)
    assert found.network_usage == pytest.approx(20 * 60 / 2e3, rel=1e-3)


def test_operators_gather_on_an_anchor_and_leave_another_together():
    """A start on the wrong anchor, glued to one another: ε lets the group go."""
    rates = {"Aa": 1.0, "ab": 50, "bc": 50, "cB": 2}
    springs = SpringSystem.of([graph(rates)], [corners])
    start_ms = np.zeros((3, 2))
    (found,) = minimise(springs, start_ms, UsageSettings(tolerance=1e-4))
    assert springs.by_query(springs.rates * springs.lengths_ms(start_ms))[0] / 2e3 == 0.06
    assert found.network_usage == pytest.approx(0.03, rel=2e-3)
    assert np.array([*found.points_ms.values()]) == pytest.approx(
        np.array([[60.0, 0]] * 3), abs=0.1
    )


def test_usage_is_that_of_the_points_and_less_than_at_the_forces_rest():
    rates = {"Aa": 900.0, "Bb": 300, "ab": 500, "bc": 100, "Ac": 50, "cC": 200}
    (found,) = least_usage([graph(rates)], [corners])
    rest_ms = at_rest(rates)
    assert found.network_usage == pytest.approx(usage(rates, corners | found.points_ms))
    assert found.network_usage < 0.99 * usage(rates, corners | rest_ms)


def test_queries_in_a_batch_do_not_touch_one_another():
    first = graph({"Aa": 10, "Ba": 10, "aC": 10}, "first")
    second = graph({"Aa": 900.0, "Bb": 300, "ab": 500, "bc": 100, "Ac": 50, "cC": 200}, "second")
    pinned = graph({"AB": 5}, "pinned")
    together = least_usage([first, pinned, second], [corners] * 3)
    for query, found in zip((first, pinned, second), together, strict=True):
        (alone,) = least_usage([query], [corners])
        assert alone.rounds == found.rounds
        assert alone.network_usage == found.network_usage
        for name, point_ms in alone.points_ms.items():
            assert found.points_ms[name].tolist() == point_ms.tolist()
    assert together[1].points_ms == {}
    assert together[1].network_usage == 0
    assert together[0].rounds != together[2].rounds


def test_a_query_whose_neighbours_share_a_place_costs_nothing():
    here = dict.fromkeys("AB", np.array([3.0, 4.0]))
    (found,) = least_usage([graph({"Aa": 1e6, "ab": 10, "bB": 1e3})], [here])
    assert found.points_ms["b"] == pytest.approx([3, 4])
    assert found.network_usage == pytest.approx(0, abs=1e-6)
    assert found.rounds == 0


def test_a_strong_stream_does_not_hide_what_a_weak_one_costs():
    """A filter that keeps a millionth: b's place is decided by trickles, and is worth finding."""
    rates = {"Aa": 1e6, "ab": 1.0, "Bb": 1, "bC": 1}
    (found,) = least_usage([graph(rates)], [corners])
    inset = 60 * (3 - math.sqrt(3)) / 6
    assert found.points_ms["a"] == pytest.approx([0, 0], abs=1e-3)
    assert found.points_ms["b"] == pytest.approx([inset, inset], abs=1)
    assert found.network_usage <= 1.002 * found.lower_bound


def test_the_strongest_forces_there_can_be():
    """Rates up to the greatest and down to the least that graphs take: factors stay regular."""
    rates = {"Aa": 1, "ab": MAX_RATE, "bc": MAX_RATE, "cB": 0, "bC": 3}
    ordinary = {"Aa": 10, "Ba": 10, "aC": 10.0}
    found, other = least_usage([graph(rates), graph(ordinary, "r")], [corners] * 2)
    assert np.isfinite(list(found.points_ms.values())).all()
    assert found.points_ms["a"] == pytest.approx(found.points_ms["b"], abs=1e-3)
    (alone,) = least_usage([graph(ordinary, "r")], [corners])
    assert other.network_usage == alone.network_usage


def test_a_small_network_is_solved_like_a_large_one():
    """A rack, a thousandth of the size: the same rounds to the same shape."""
    rates = {"Aa": 900.0, "Bb": 300, "ab": 500, "bc": 100, "Ac": 50, "cC": 200}
    rack = {name: point_ms / 1024 for name, point_ms in corners.items()}
    large, small = least_usage([graph(rates), graph(rates, "r")], [corners, rack])
    assert small.rounds == large.rounds
    assert 1024 * small.network_usage == pytest.approx(large.network_usage)


def test_no_round_leaves_the_start():
    springs = SpringSystem.of([graph({"Aa": 10, "aC": 20})], [corners])
    start_ms = np.array([[7.0, 8.0]])
    (found,) = minimise(springs, start_ms, UsageSettings(max_rounds=0))
    assert found.points_ms["a"].tolist() == start_ms[0].tolist()
    assert found.lower_bound == 0


def test_a_missing_position_is_named():
    with pytest.raises(GraphError, match=r"query q, operator B: .*no position"):
        least_usage([graph({"Aa": 1, "aB": 1})], [{"A": np.zeros(2)}])


@pytest.mark.parametrize("tolerance", [-1, math.nan, math.inf])
def test_the_tolerance_is_a_share(tolerance: float):
    with pytest.raises(SettingsError, match=f"tolerance {tolerance}"):
        UsageSettings(tolerance=tolerance)


@pytest.mark.parametrize("softening", [0, -1, math.nan, math.inf])
def test_softening_is_a_share(softening: float):
    with pytest.raises(SettingsError, match=f"softening {softening}"):
        UsageSettings(softening=softening)


def test_rounds_are_counted_from_zero():
    with pytest.raises(SettingsError, match="max_rounds -1"):
        UsageSettings(max_rounds=-1)
