"""Whether a machine had time while a drill ran: from readings of its processors."""

from __future__ import annotations

import msgspec
import pytest
from rich.console import Console, RenderableType

from orchestrator.api import Verdict
from orchestrator.cli.render.verdict import verdict_view
from orchestrator.drills.processor_use import Reading, processor_use
from orchestrator.results.drill_report import ProcessorUse
from tests.unit.orchestrator.cli.render.test_drills import run


def reading(at_s: float, used_s: float, cluster_s: float = 0.0, stolen_s: float = 0.0) -> Reading:
    """Of a machine with two processors."""
    return Reading(
        at_us=round(at_s * 1e6),
        all_s=2 * at_s,
        used_s=used_s,
        stolen_s=stolen_s,
        cluster_s=cluster_s,
    )


READINGS = (
    reading(10.0, used_s=5.0, cluster_s=3.0),
    reading(11.0, used_s=5.2, cluster_s=3.0),
    reading(12.0, used_s=7.0, cluster_s=3.5, stolen_s=0.2),
    reading(14.0, used_s=8.0, cluster_s=4.0, stolen_s=0.4),
)


def test_the_use_while_output_was_silent_is_told_apart_from_that_of_the_whole_drill() -> None:
    use = processor_use(READINGS, resumed_us=11_900_000, silent_ms=700.0)
    assert use is not None
    assert use.in_silence is not None
    assert use.used == pytest.approx(100 * 3.0 / 8.0)
    assert use.cluster == pytest.approx(100 * 1.0 / 8.0)
    assert use.stolen == pytest.approx(100 * 0.4 / 8.0)
    assert use.in_silence == pytest.approx(100 * 1.8 / 2.0)
    assert use.short
    assert use.summary == (
        "38 % (the cluster 12 %, others 20 %, stolen 5 %), 90 % while output was silent"
    )


def test_nothing_is_said_of_a_time_that_was_not_read() -> None:
    assert processor_use(READINGS[:1], 11_000_000, 1000.0) is None
    use = processor_use(READINGS, resumed_us=11_000_000, silent_ms=2000.0)
    assert use is not None
    assert use.in_silence is None
    assert not use.short


@pytest.mark.parametrize(
    ("in_silence", "told"),
    [
        (97.0, "used to 97 %: the machine was too busy"),
        (40.0, "used to 40 %: the machine had time"),
    ],
)
def test_a_broken_bound_says_whether_the_machine_was_too_busy(in_silence: float, told: str) -> None:
    report = run("hang", 400.0).report
    assert report is not None
    assert report.machine_told is None
    use = ProcessorUse(used=50.0, cluster=30.0, stolen=0.0, in_silence=in_silence)
    report = msgspec.structs.replace(report, processors=use)
    assert report.machine_told is not None
    assert told in report.machine_told
    assert msgspec.structs.replace(report, recovery_ms=200.0).machine_told is None


@pytest.mark.parametrize(
    ("used", "in_silence", "told"),
    [
        (90.0, 50.0, "used to 90 %, to 50 % while output was silent: the machine was too busy, or"),
        (70.0, 99.0, "used to 70 %, to 99 % while output was silent: the machine was too busy, or"),
        (40.0, 50.0, "used to 40 %, to 50 % while output was silent: the machine had time"),
        (90.0, None, "used to 90 %: the machine was too busy, or is too small"),
    ],
)
def test_a_demo_that_is_late_says_whether_the_machine_was_too_busy(
    used: float, in_silence: float | None, told: str
) -> None:
    use = ProcessorUse(used=used, cluster=30.0, stolen=0.0, in_silence=in_silence)
    late = demo(deadline_miss_ratio=0.2, processors=use)
    assert told in (late.machine_told or "")
    assert told in rendered(verdict_view(late))
    assert demo(processors=use).machine_told is None
    assert demo(deadline_miss_ratio=0.2).machine_told is None


def test_a_demo_that_breaks_the_bound_tells_of_the_silence() -> None:
    use = ProcessorUse(used=50.0, cluster=30.0, stolen=0.0, in_silence=99.0)
    broken = demo(deadline_miss_ratio=0.2, recovery_ms=400.0, processors=use)
    assert "While output was silent, processors were used to 99 %" in (broken.machine_told or "")


def demo(
    *,
    deadline_miss_ratio: float = 0.0,
    recovery_ms: float = 100.0,
    processors: ProcessorUse | None = None,
) -> Verdict:
    return Verdict(
        killed_node="germany",
        detection_ms=50.0,
        recovery_ms=recovery_ms,
        gap_ms=recovery_ms,
        bound_ms=300.0,
        lost=0,
        repeated=0,
        completed_timestamps=21598,
        redundancy_restored_s=5.0,
        processors=processors,
        verified=True,
        latency_ms_p50=60.0,
        latency_ms_p99=120.0,
        deadline_miss_ratio=deadline_miss_ratio,
        deadline_ms=300.0,
        input_waited_ms=0.0,
        alerts=95,
        input_rows=1000,
        outputs={"alerts": 95},
        differences=(),
    )


def rendered(view: RenderableType) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(view)
    return capture.get()
