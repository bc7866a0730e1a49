"""A drill's timeline as a picture: the silences of each output, the bound, and what happened when.

The height at a moment is how long the output had been silent when something arrived then. Colours
are those of the coordinate map.
"""

from __future__ import annotations

from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

from orchestrator import api
from orchestrator.cli.render.map import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION

STYLES = (
    (VERMILION, "-"),
    (ORANGE, "--"),
    (GREEN, "-."),
    (PURPLE, ":"),
    (SKY, "--"),
    (GREY, "-."),
)
"""Colour and line of each kind of moment, in the order in which they come."""


def draw_timeline(report: api.DrillReport, file: Path) -> None:
    """Draw what a drill did into a file whose suffix says the format."""
    _figure(report).savefig(file, dpi=150)


def timeline_svg(report: api.DrillReport) -> str:
    """The same as text, with letters that a browser chooses; equal for equal reports."""
    # Through Any, for matplotlib's annotations leave its settings open.
    matplotlib: Any = import_module("matplotlib")
    drawn = StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "drill"}):
        _figure(report).savefig(drawn, format="svg", metadata={"Date": None})
    return drawn.getvalue()


def _figure(report: api.DrillReport) -> Any:
    # Importing matplotlib takes longer than most commands.
    from matplotlib.figure import Figure

    timeline = report.timeline
    assert timeline is not None, "a drill that was run has a timeline"
    height = 1.6 + 1.5 * len(timeline.silences) + 0.18 * len(timeline.moments)
    # Through Any, for matplotlib's annotations leave keyword arguments open.
    figure: Any = Figure(figsize=(9, height), layout="constrained")
    panels = figure.subplots(len(timeline.silences), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (stream, silences) in zip(panels, timeline.silences.items(), strict=True):
        ended_s = [each.ended_ms / 1000 for each in silences]
        axes.vlines(ended_s, 0, [each.lasted_ms for each in silences], color=BLUE, linewidth=1.5)
        axes.axhline(timeline.bound_ms, color="black", linewidth=1, linestyle=(0, (6, 2)))
        axes.set_title(stream, loc="left", fontsize=10)
        axes.set_ylabel("silent for, ms")
        axes.set_ylim(bottom=0)
    kinds = list(dict.fromkeys(_kind(moment.what) for moment in timeline.moments))
    for moment in timeline.moments:
        colour, line = STYLES[kinds.index(_kind(moment.what)) % len(STYLES)]
        for axes in panels:
            label = f"{moment.at_ms / 1000:.3f} s  {moment.what}" if axes is panels[0] else None
            axes.axvline(
                moment.at_ms / 1000, color=colour, linestyle=line, linewidth=1, label=label
            )
    panels[-1].set_xlabel("seconds after the fault")
    verdict = "; ".join(report.failures) or report.kept
    what = "predicted" if report.simulated else "measured"
    bound = f"broken line: bound {timeline.bound_ms:g} ms"
    figure.suptitle(f"Drill {report.drill}, {what}: {verdict}\n{bound}", fontsize=10)
    figure.legend(loc="outside lower left", fontsize=8, frameon=False)
    return figure


def _kind(what: str) -> str:
    """What a moment tells, without its subject."""
    return what.partition(":")[0]
