"""The results of drills."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.console import Group, RenderableType
from rich.text import Text

from orchestrator import api
from orchestrator.cli.render.figures import against, count, moment, ms
from orchestrator.cli.render.tables import Table


def report_view(*reports: api.DrillReport) -> RenderableType:
    """A drill's report as a table, and a line that sums it up; a column for each of several."""
    first = reports[0]
    title = f"Drill {first.drill}{', simulated' if first.simulated else ''}"
    table = Table(show_header=len(reports) > 1, box=None, pad_edge=False, title_justify="left",
                  title=title if len(reports) == 1 else f"Drill {first.drill}")  # fmt: skip
    table.add_column(style="bold", min_width=20)
    for report in reports:
        table.add_column("predicted" if report.simulated else "measured")
    columns = [_rows(report) for report in reports]
    for name in dict.fromkeys(name for column in columns for name in column):
        table.add_row(name, *(column.get(name, "–") for column in columns))
    return Group(table, *map(_verdict, reports))


def _rows(report: api.DrillReport) -> dict[str, RenderableType]:
    rows: list[tuple[str, RenderableType]] = [
        ("blast radius", report.blast.summary),
    ]
    if report.causes:
        rows += [
            ("struck", report.killed_node),
            ("primaries on it", ", ".join(report.fragments) or "none"),
            ("noticed by", ", ".join(report.causes)),
            ("detection", ms(report.detection_ms)),
        ]
    compared = ", ".join(report.compared)
    rows += [
        ("planned recovery", _planned(report)),
        ("recovery", _held(report.recovery_ms, report.bound_ms, report.bound_why)),
        ("longest silence", _held(report.gap_ms, report.gap_bound_ms, report.gap_why)),
        ("lost, repeated", f"{report.lost}, {report.repeated} of {count(report.tuples)} tuples"),
        ("compared with", f"archives of {compared}" if compared else "–"),
        ("differing tuples", count(report.differing)),
        ("redundancy restored", f"after {report.redundancy_restored_s:.1f} s"),
        ("hosts were late by", _late(report)),
        ("processors used", "–" if report.processors is None else report.processors.summary),
    ]
    rows += [("synthetic input", ", ".join(report.synthetic))] if report.synthetic else []
    rows += [("input lost", "; ".join(report.input_lost))] if report.input_lost else []
    rows += [("remarks", "; ".join(report.remarks))] if report.remarks else []
    return dict(rows)


def _held(value_ms: float, bound_ms: float | None, why: str) -> RenderableType:
    """A figure beside its bound, and why that one."""
    if bound_ms is None:
        return f"{ms(value_ms)}, held against no bound{why and f': {why}'}"
    return Text.assemble(against(value_ms, bound_ms), why and f" {why}")


def _late(report: api.DrillReport) -> str:
    """Predicted hosts are never late."""
    return "–" if report.late_ms is None else f"at most {ms(report.late_ms)} on average"


def _planned(report: api.DrillReport) -> RenderableType:
    """What the plan had said; of a drill that strikes no primary it says nothing."""
    planned_ms = report.blast.planned_ms
    return "–" if planned_ms is None else against(planned_ms, report.bound_ms)


def _verdict(report: api.DrillReport) -> RenderableType:
    what = "Predicted: " if report.simulated else ""
    if report.failures:
        failed = f"✗ {what}{'; '.join(report.failures)}."
        return Text(" ".join(filter(None, [failed, report.machine_told])), style="bold red")
    kept = report.kept if what else report.kept.capitalize()
    return Text(f"✓ {what}{kept}.", style="green")


def series_view(runs: Sequence[api.DrillRun]) -> RenderableType:
    """The drills of a series, and of each kind how long recovery took, and was to take at most."""
    table = Table(box=None, pad_edge=False, title_justify="left", title="Series")
    columns = "drill", "passed", "predicted", "planned", "median", "longest", "bound"
    for column in columns:
        table.add_column(column, justify="left" if column == "drill" else "right")
    for name in dict.fromkeys(run.drill for run in runs):
        fitting = [run for run in runs if run.drill == name and run.inapplicable is None]
        passed = sum(run.passed for run in fitting)
        style = "green" if passed == len(fitting) else "bold red"
        found = [run.report for run in fitting if run.report is not None]
        times_ms = [each.recovery_ms for each in found]
        predicted_ms = [each_ms for each in found if (each_ms := each.predicted_ms) is not None]
        planned_ms = [each_ms for each in found if (each_ms := each.blast.planned_ms) is not None]
        table.add_row(
            name,
            Text(f"{passed} of {len(fitting)}" if fitting else "–", style=style),
            ms(max(predicted_ms, default=None)),
            ms(max(planned_ms, default=None)),
            ms(median(times_ms) if times_ms else None),
            ms(max(times_ms, default=None)),
            ms(min((each.bound_ms for each in found), default=None)),
        )
    return Group(*map(_run_view, runs), table)


def _run_view(run: api.DrillRun) -> RenderableType:
    """One drill of a series: its report, or why there is none."""
    if run.report is not None:
        unpredicted = [Text(f"Not predicted: {run.unpredicted}")] if run.unpredicted else []
        return Group(report_view(run.report), *unpredicted, Text())
    if run.inapplicable is not None:
        return Text(f"– Drill {run.drill} does not fit: {run.inapplicable}\n", style="yellow")
    return Text(f"✗ Drill {run.drill}: {run.problem}\n", style="bold red")


def audit_view(audit: api.DrillAudit) -> RenderableType:
    """What was drilled when, and the fragments whose primary no drill has struck."""
    table = Table(box=None, pad_edge=False)
    for column in ("drill", "last run", "result", "runs", "failed", "detail"):
        table.add_column(column)
    begun = {each.subject: each.at_us for each in audit.unended}
    for each in audit.drills:
        if each.at_us is None and each.name in begun:
            detail = "interrupted, or is under way"
            table.add_row(each.name, moment(begun[each.name]), "no result", "0", "0", detail)
            continue
        if each.at_us is None:
            never = "never" if each.unfit is None else "does not fit"
            table.add_row(each.name, never, "–", "0", "0", Text(each.unfit or ""))
            continue
        result = Text("✓ passed", style="green") if each.passed else Text("✗ failed", style="red")
        table.add_row(
            *(each.name, moment(each.at_us), result, str(each.runs), str(each.failed)),
            Text(each.detail),
        )
    spared = [each.fragment for each in audit.fragments if not each.drills]
    if not spared:
        return table
    return Group(table, Text(f"\nNo drill has struck the primary of {', '.join(spared)}."))
