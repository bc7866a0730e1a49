"""Phases of benchmark `batching` on executors: their manifests, and their figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bench import batching_real
from bench.batching_real import Asked, Phase, plot_traces, steady, violations, with_burst, write
from orchestrator.edges.sinks.delivered import Delivered
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


def test_a_tuple_is_late_from_when_it_was_due_however_long_its_source_has_waited() -> None:
    completed = {
        "watermark_ms": [10, 20],
        # It came in a second late.
        "ingestion_time_us": [5_010_000, 6_020_000],
        "arrived_us": [5_015_000, 6_025_000],
    }
    rows = {"_ts": [9, 10, 20]}
    delivered = Delivered(pa.table(completed), pa.table(rows))
    due_us, arrived_us = batching_real.due_and_arrived_us(delivered, 5_000_000)
    assert (arrived_us - due_us).tolist() == [6_000, 5_000, 1_005_000]


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
    vacuous = {"real.deferred.deferred.late_pct": 0.0, "real.deferred.edf.late_pct": 0.0}
    assert list(violations(fine | vacuous)) == [
        "real.deferred: not even under EDF is anything late"
    ]


@pytest.mark.parametrize("quick", [False, True])
def test_no_order_keeps_all_deadlines_of_the_overload_and_its_backlog_is_small(
    quick: bool,
) -> None:
    asked = batching_real._deferred("edf", quick=quick)  # pyright: ignore[reportPrivateUsage]
    due_ms = np.concatenate(
        [at + each for at, each in zip(asked.times_ms, asked.deadlines_ms, strict=True)]
    )
    work_ms = (1 + np.arange(len(due_ms))) * asked.cost_us / 1000
    assert (work_ms - np.sort(due_ms)).max() > 0.02 * work_ms[-1]
    last_ms = max(int(at[-1]) for at in asked.times_ms)
    assert work_ms[-1] - last_ms < 0.95 * batching_real.CAUGHT_UP_S * 1000


def test_traces_are_plotted(tmp_path: Path) -> None:
    plot_traces({"measured": [(0.0, 1.0, 0.0), (1.0, 4.0, 12.0)]}, tmp_path / "burst.png")
    assert (tmp_path / "burst.png").stat().st_size > 1000
