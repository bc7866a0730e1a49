"""A drill's picture names what happened, and what was promised."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orchestrator.cli.render.timeline import draw_timeline
from orchestrator.results.drill_report import Moment, Silence, Timeline
from tests.unit.orchestrator.cli.render.test_drills import run


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_picture_shows_each_output_and_what_happened(tmp_path: Path, outputs: int) -> None:
    report = run("hang", 120.0).report
    assert report is not None
    timeline = Timeline(
        bound_ms=300.0,
        moments=(Moment(at_ms=0.0, what="fault"), Moment(at_ms=80.0, what="took over: q.f")),
        silences={f"out{i}": (Silence(ended_ms=120.0, lasted_ms=120.0),) for i in range(outputs)},
    )
    file = tmp_path / "drill.svg"
    draw_timeline(msgspec.structs.replace(report, timeline=timeline), file)
    drawn = file.read_text()
    # matplotlib writes each text as a comment beside its shapes.
    for text in ("took over: q.f", "bound 300 ms", *timeline.silences):
        assert text in drawn
