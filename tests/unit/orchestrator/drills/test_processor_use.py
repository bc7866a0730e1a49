"""Whether a machine had time while a drill ran: from readings of its processors."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.drills.processor_use import (
    ProcessorUse,
    Reading,
    processor_use,
)
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
    use = processor_use(READINGS, from_us=11_200_000, until_us=11_900_000)
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
    assert processor_use(READINGS[:1], 10_000_000, 11_000_000) is None
    use = processor_use(READINGS, from_us=9_000_000, until_us=11_000_000)
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
