"""The report of all drills as one page, to be kept or shown to others: HTML without anything else.

Everything on it is from the history and from what the cluster is; pictures are drawn from the
timelines that the history keeps. Times are UTC.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape

from orchestrator import api
from orchestrator.cli.render.figures import count, ms
from orchestrator.cli.render.timeline import timeline_svg

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 62em; padding: 0 1em;
       color: #1b1b1b; }
h1 { margin-bottom: 0; } h2 { margin-top: 2em; border-bottom: 1px solid #bbb; }
table { border-collapse: collapse; margin: 0.6em 0; }
th, td { text-align: left; vertical-align: top; padding: 0.2em 0.9em 0.2em 0; }
th { border-bottom: 1px solid #bbb; font-weight: 600; }
td.figure { white-space: nowrap; } .passed { color: #00694b; } .failed { color: #b03a00; }
section { break-inside: avoid; } img { max-width: 100%; } .quiet { color: #555; }
"""

NOTES = (
    "Promised is the recovery bound of the queries that were hit, the tightest of them; a drill of "
    "a site or a link is allowed what the documentation of drills says beside it.",
    "Planned is how long recovery takes at most by the plan that ran and by how late hosts were "
    "right before, for drills that fail primaries.",
    "Predicted is what the simulated world had said of the same drill on the same plan right "
    "before; only drills that were run with --compare have it.",
    "Measured is what an additional receiver of the outputs saw, from one second before the fault "
    "until one second after everything was protected again.",
    "Lost and repeated tuples are counted from their sequence numbers. Archives that were compared "
    "with what the receiver saw, value by value, are named.",
    "A drill has passed if nothing was lost, repeated or different, and recovery was within what "
    "was promised.",
)

Tell = Callable[[str, str], None]
"""Takes a step and how far it has come."""


def drill_page(audit: api.DrillAudit, tell: Tell) -> str:
    """The page."""
    parts = [
        f"<h1>Drills of cluster {escape(audit.cluster)}</h1>",
        f'<p class="quiet">{_span(audit)}</p>',
        f"<p>{_summary(audit)}</p>",
        *_drills(audit),
        *_unfit(audit),
        *_fragments(audit),
        "<h2>How the figures are taken</h2>",
        _list(NOTES),
        "<h2>Runs</h2>",
    ]
    for number, run in enumerate(audit.runs, start=1):
        tell("picture", f"{number} of {len(audit.runs)}")
        parts.append(_run(number, run))
    if not audit.runs:
        parts.append("<p>None.</p>")
    body = "\n".join(parts)
    title = f"Drills of {escape(audit.cluster)}"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _span(audit: api.DrillAudit) -> str:
    begin = "is empty" if audit.since_us is None else f"goes back to {_utc(audit.since_us)}"
    return f"Read on {_utc(audit.at_us)}; the history of the cluster {begin}."


def _summary(audit: api.DrillAudit) -> str:
    fitting = [each for each in audit.drills if each.unfit is None]
    run = [each for each in fitting if each.runs]
    passed = sum(each.passed is True for each in run)
    reports = [each.report for each in audit.runs if each.report is not None]
    lost, repeated, differing = (
        sum(getattr(each, name) for each in reports) for name in ("lost", "repeated", "differing")
    )
    told = [
        f"{len(audit.drills)} drills exist, {len(fitting)} of them fit this cluster.",
        f"{len(run)} were run, and {passed} of these passed the last time.",
        f"In all {len(audit.runs)} runs together {count(lost)} tuples were lost, "
        f"{count(repeated)} came twice, and {count(differing)} differed in an archive.",
    ]
    never = [each.name for each in fitting if not each.runs]
    told += [
        f"{escape(each.subject)} was begun on {_utc(each.at_us)} and has no result: it was "
        "interrupted, or is under way."
        for each in audit.unended
    ]
    told.append(f"Never drilled: {escape(', '.join(never))}." if never else "None was left out.")
    return " ".join(told)


def _drills(audit: api.DrillAudit) -> Iterator[str]:
    yield "<h2>Drills</h2>"
    yield _table(
        ("drill", "what fails, or is done", "last run", "result", "runs", "failed",
         "longest recovery", "promised"),
        (
            (
                escape(each.name),
                escape(each.what),
                "never" if each.at_us is None else _utc(each.at_us),
                "–" if each.passed is None else _result(passed=each.passed),
                str(each.runs),
                str(each.failed),
                ms(each.longest_ms),
                ms(each.bound_ms),
            )
            for each in audit.drills
            if each.unfit is None or each.runs
        ),
    )  # fmt: skip


def _unfit(audit: api.DrillAudit) -> Iterator[str]:
    unfit = [each for each in audit.drills if each.unfit is not None]
    if unfit:
        yield "<h2>What cannot be drilled here</h2>"
        yield _table(
            ("drill", "what fails, or is done", "why not"),
            ((escape(d.name), escape(d.what), escape(d.unfit or "")) for d in unfit),
        )


def _fragments(audit: api.DrillAudit) -> Iterator[str]:
    yield "<h2>Fragments</h2>"
    yield "<p>Those that run now, and the drills that have struck the node of their primary.</p>"
    yield _table(
        ("fragment", "promised", "planned", "drilled"),
        (
            (
                escape(each.fragment),
                ms(each.bound_ms),
                ms(each.planned_ms),
                escape(_often(each.drills.items())) or '<span class="failed">never</span>',
            )
            for each in audit.fragments
        ),
    )


def _often(drills: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} × {times}" if times > 1 else name for name, times in drills)


def _silence(report: api.DrillReport) -> str:
    """The longest silence, beside what it is held against."""
    if report.gap_bound_ms is None:
        return f"{ms(report.gap_ms)}, held against no bound"
    return f"{ms(report.gap_ms)} of {ms(report.gap_bound_ms)} ({report.gap_why})"


def _run(number: int, run: api.DrilledRun) -> str:
    report = run.report
    heading = f"<h3>{number}. {escape(run.drill)}, {_result(passed=run.passed)}</h3>"
    if report is None:
        told = f"<p>Ended {_utc(run.at_us)}, without figures: {escape(run.detail)}</p>"
        return f"<section>\n{heading}\n{told}\n</section>"
    struck = ", ".join((*report.blast.nodes, *report.blast.links)) or "no node, site or link"
    rows = {
        "struck": f"{_utc(report.struck_us)}: {escape(struck)}",
        "hit": escape(report.blast.summary),
        "promised": escape(f"{ms(report.bound_ms)}: {report.bound_why}".rstrip(": ")),
        "planned": ms(report.blast.planned_ms),
        "predicted": ms(report.predicted_ms),
        "measured": f"{ms(report.recovery_ms)}; longest silence {escape(_silence(report))}",
        "lost, repeated": f"{report.lost}, {report.repeated} of {count(report.tuples)} tuples",
        "compared with": escape(_compared(report)),
        "protected again": f"after {report.redundancy_restored_s:.1f} s",
        "hosts late by": "" if report.late_ms is None else ms(report.late_ms),
        "processors used": "" if report.processors is None else report.processors.summary,
        "noticed by": escape(", ".join(report.causes)),
        "would lose": escape("; ".join(report.blast.would_lose)),
        "input lost": escape("; ".join(report.input_lost)),
        "remarks": escape("; ".join(report.remarks)),
        "failures": escape("; ".join(report.failures)),
        "machine": escape(report.machine_told or ""),
    }
    rows |= {escape(each.subject): escape(each.detail) for each in run.recoveries}
    parts = [heading, _table((), ((name, told) for name, told in rows.items() if told))]
    if report.timeline is not None:
        drawn = b64encode(timeline_svg(report).encode()).decode()
        parts.append(
            f'<img src="data:image/svg+xml;base64,{drawn}" alt="Timeline of run {number}">'
        )
    return "<section>\n" + "\n".join(parts) + "\n</section>"


def _compared(report: api.DrillReport) -> str:
    if not report.compared:
        return "no archive"
    return f"archives of {', '.join(report.compared)}: {report.differing} tuples differ"


def _result(*, passed: bool) -> str:
    mark, result = ("✓", "passed") if passed else ("✗", "failed")
    return f'<span class="{result}">{mark} {result}</span>'


def _utc(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _list(items: Sequence[str]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{escape(each)}</li>" for each in items) + "\n</ul>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    lines = ["<table>"]
    if head:
        lines.append("<tr>" + "".join(f"<th>{escape(each)}</th>" for each in head) + "</tr>")
    lines += ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    return "\n".join([*lines, "</table>"])
