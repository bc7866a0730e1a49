"""Phases of benchmark `batching` on executors: their manifests, and their figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench import batching_real
from bench.batching_real import Asked, Phase, plot_traces, steady, violations, with_burst, write
from orchestrator.manifest import load
from orchestrator.records import Overdue


def asked(overdue: str = "keep") -> Asked:
    rng = np.random.default_rng(1)
    return Asked(
        name="phase",
        policy="bts-4",
        times_ms=[steady(rng, 100, 2.0), steady(rng, 50, 2.0)],
        deadlines_ms=[500, 1000],
        cost_us=400,
        seconds=2.5,
        overdue=overdue,
    )


@pytest.mark.parametrize("overdue", ["keep", "drop"])
def test_manifests_of_a_phase_are_valid(tmp_path: Path, overdue: str) -> None:
    found = load([write(asked(overdue), tmp_path / "phase")])
    assert [each.record.name for each in found.queries] == ["phase-0", "phase-1"]
    assert [each.record.deadline_ms for each in found.queries] == [500, 1000]
    said = {each.record.overdue for each in (*found.streams, *found.queries)}
    assert said == {Overdue(overdue)}
    assert {each.record.batching for each in found.queries} == {"bts-4"}


def test_a_burst_is_five_times_as_much_for_its_time() -> None:
    times_ms = with_burst(np.random.default_rng(2), 100, 6.0, (2.0, 2.0))
    assert (np.diff(times_ms) >= 0).all()
    within = np.count_nonzero((times_ms > 2000) & (times_ms <= 4000))
    outside = len(times_ms) - within
    assert len(times_ms) == 600 + 800
    assert within == pytest.approx(1000, rel=0.1)
    assert outside == pytest.approx(400, rel=0.1)


def test_figures_of_a_phase() -> None:
    phase = Phase(
        recorded=100, overdue=10, delivered=85, late=17, decided=50, missed=5, cpu_s=0.2, tuples=400
    )
    phase.trace = [(0.0, 1.0, 0.0), (1.0, 3.0, 50.0)]
    assert phase.unaccounted == 5
    assert phase.figures("p") == pytest.approx(
        {"p.sdmr_pct": 10, "p.overhead_us_tuple": 500, "p.k_mean": 2, "p.late_pct": 20}
    )
    summed = batching_real.Found()
    summed.add(phase, "p")
    assert summed.summed()["real.unaccounted"] == 5


def test_what_executors_should_show_and_do_not_is_told() -> None:
    fine = {
        "real.lost": 0.0,
        "real.overdue.calm.overdue": 0.0,
        "real.deferred.deferred.late_pct": 10.0,
        "real.deferred.edf.late_pct": 20.0,
        "real.deferred.deferred.caught_up_s": 2.0,
        "real.burst.bts-1.sdmr_pct": 10.0,
        "real.burst.bts-8.sdmr_pct": 5.0,
        "real.burst.measured.sdmr_pct": 5.5,
    }
    assert not list(violations(fine))
    assert not list(violations({}))
    worse = {
        "real.lost": 1.0,
        "real.overdue.calm.overdue": 2.0,
        "real.deferred.deferred.late_pct": 11.0,
        "real.deferred.deferred.caught_up_s": 6.0,
        "real.burst.measured.sdmr_pct": 6.5,
    }
    for key, value in worse.items():
        assert len(list(violations(fine | {key: value}))) == 1, key


def test_traces_are_plotted(tmp_path: Path) -> None:
    plot_traces({"measured": [(0.0, 1.0, 0.0), (1.0, 4.0, 12.0)]}, tmp_path / "burst.png")
    assert (tmp_path / "burst.png").stat().st_size > 1000
