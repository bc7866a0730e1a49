"""The results of a demo and of a drill."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from orchestrator import api
from orchestrator.cli.render.figures import against, count, ms
from orchestrator.cli.render.tables import Table


def verdict_view(verdict: api.Verdict) -> RenderableType:
    """The verdict as a table, and one line that sums it up."""
    table = Table(
        title="Verdict", title_justify="left", show_header=False, box=None, pad_edge=False
    )
    table.add_column(style="bold", min_width=20)
    table.add_column()
    v = verdict
    rows: list[tuple[str, RenderableType]] = [
        ("input", f"{count(v.input_rows)} tuples replayed"),
        ("outputs", ", ".join(f"{name} {count(rows)}" for name, rows in v.outputs.items())),
        ("check of results", _holds(v.verified, "equal to Spark SQL's, row for row", "differ")),
        (
            "latency",
            f"p50 {ms(v.latency_ms_p50)}, p99 {ms(v.latency_ms_p99)}, deadline {ms(v.deadline_ms)}",
        ),
        ("deadline misses", _misses(v)),
        ("input waited", _holds(v.input_waited_ms <= v.deadline_ms, ms(v.input_waited_ms), "")),
        ("processors used", "–" if v.processors is None else v.processors.summary),
        ("killed", f"the executor of {v.killed_node}"),
        ("detection", ms(v.detection_ms)),
        ("recovery", against(v.recovery_ms, v.bound_ms)),
        ("longest silence", f"{ms(v.gap_ms)} in the seconds after the kill; no bound"),
        ("lost, repeated", _holds(not v.lost and not v.repeated, f"{v.lost}, {v.repeated}", "")),
        ("redundancy restored", f"after {v.redundancy_restored_s:.1f} s"),
    ]  # fmt: skip
    for name, value in rows:
        table.add_row(name, value)
    parts: list[RenderableType] = [table]
    parts += [Text(difference, style="red") for difference in v.differences]
    if v.failures:
        parts.append(Text(f"✗ {'; '.join(v.failures)}.", style="bold red"))
        if v.machine_told is not None:
            parts.append(Text(v.machine_told))
    else:
        parts.append(Text("✓ Everything that was promised holds.", style="bold green"))
    return Group(*parts)


def _misses(v: api.Verdict) -> Text:
    """The share of missed deadlines, which decides, and its limit."""
    limit = api.MISSES_ALLOWED
    style, mark = ("green", "") if v.deadline_miss_ratio <= limit else ("bold red", " ✗")
    return Text.assemble(
        (f"{100 * v.deadline_miss_ratio:.3f} %", style), f" / {100 * limit:.0f} %", (mark, style),
        f" of {count(v.completed_timestamps)} completed timestamps",
    )  # fmt: skip


def _holds(holds: bool, good: str, bad: str) -> Text:
    return Text(good, style="green") if holds else Text(bad or good, style="bold red")
