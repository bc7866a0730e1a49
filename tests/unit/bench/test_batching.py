"""The experiment of adaptive batching: every tuple is decided, and figures show what they must."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.batching import FIGURES, POLICIES, violations
from bench.batching_model import Experiment, Setup

SMALL = Setup(queries=4, rate_ms=0.05, seconds=1.0, batch_us=10_000)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_tuple_is_decided_once_by_every_policy(policy: str) -> None:
    arrived = sum(len(each.arrivals_us) for each in SMALL.made())
    outcome = Experiment(SMALL, policy).run()
    assert arrived > 100
    assert (outcome.decided, outcome.missed, outcome.dropped) == (arrived, 0, 0)


def test_under_too_much_input_dropping_what_will_be_late_misses_less() -> None:
    heavy = replace(SMALL, rate_ms=30.0, seconds=0.6)
    queries = heavy.made()
    load = sum(each.tuple_us * len(each.arrivals_us) for each in queries) / 0.6e6
    assert load > 1.5
    late = {each: Experiment(heavy, each).run() for each in ("bts-1", "bts1", "ideal")}
    assert late["ideal"].missed <= late["bts1"].missed <= late["bts-1"].missed
    assert all(each.decided == late["ideal"].decided for each in late.values())


def test_a_burst_hastens_arrivals_between_its_ends_and_keeps_their_order() -> None:
    steady = replace(SMALL, seconds=4.0)
    hastened = replace(steady, burst=(1.0, 2.0, 5.0))
    arrivals_us = hastened.made()[0].arrivals_us
    assert (arrivals_us[1:] >= arrivals_us[:-1]).all()
    inside = ((arrivals_us >= 1e6) & (arrivals_us < 2e6)).sum()
    before = (arrivals_us < 1e6).sum()
    assert 3 * before < inside < 8 * before


def test_rates_by_zipf_have_the_same_sum() -> None:
    even, zipf = (replace(SMALL, zipf=each, seconds=60.0).made() for each in (False, True))
    counts = [sum(len(query.arrivals_us) for query in made) for made in (even, zipf)]
    assert counts[1] == pytest.approx(counts[0], rel=0.1)
    assert len(zipf[0].arrivals_us) > 3 * len(zipf[-1].arrivals_us)


def test_what_the_figures_should_show_and_do_not_is_told() -> None:
    fine = {f"sim.fig8.0.5.{policy}.sdmr_pct": 10.0 for policy in POLICIES}
    assert not list(violations(fine))
    worse = fine | {"sim.fig8.0.5.measured.sdmr_pct": 11.5, "law_minus.k_max": 2.0}
    assert [each.partition(":")[0] for each in violations(worse)] == ["sim.fig8.0.5", "law_minus"]
    assert list(violations(fine | {"sim.fig8.0.5.ideal.sdmr_pct": 10.1}))
    assert set(FIGURES) >= {"fig8", "fig10", "zipf", "phi_10", "phi_20", "small"}
