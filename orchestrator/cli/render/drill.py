"""A drill's report for people."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.cli.render.figures import against, count, ms
from orchestrator.drills.report import DrillReport


def report_view(report: DrillReport) -> RenderableType:
    """What was done and what came of it."""
    table = Table(show_header=False, box=None, pad_edge=False, title_justify="left",
                  title=f"Drill {report.drill}")  # fmt: skip
    table.add_column(style="bold", min_width=20)
    table.add_column()
    rows: list[tuple[str, RenderableType]] = [
        ("killed", f"the executor of {report.killed_node}"),
        ("primaries on it", ", ".join(report.fragments) or "none"),
        ("noticed by", ", ".join(report.causes) or "–"),
        ("detection", ms(report.detection_ms)),
        ("recovery", against(report.recovery_ms, report.bound_ms)),
        ("longest silence", f"{ms(report.gap_ms)} in the seconds after the kill"),
        ("lost, repeated", f"{report.lost}, {report.repeated} of {count(report.tuples)} tuples"),
        ("redundancy restored", f"after {report.redundancy_restored_s:.1f} s"),
    ]
    for name, value in rows:
        table.add_row(name, value)
    if report.failures:
        return Group(table, Text(f"✗ {'; '.join(report.failures)}.", style="bold red"))
    return Group(table, Text("✓ Nothing lost, nothing repeated, within the bound.", style="green"))
