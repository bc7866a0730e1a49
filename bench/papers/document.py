"""Catalogue and reports, put together: what `papers.json` holds and the page shows.

Everything but the reports follows from them, so the document of its own reports is the document:
that is how its numbers can be computed again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bench.papers.catalogue import PAPERS
from bench.papers.entries import Curve, Figure, Paper, Plot, Reading, Row
from bench.papers.reports import Report

Reports = Mapping[str, Report]


def document(reports: Reports, *, quick: bool, papers: Sequence[Paper] = PAPERS) -> dict[str, Any]:
    """Everything that the page shows, ready for JSON."""
    return {
        "quick": quick,
        "reports": dict(reports),
        "papers": [
            {
                "name": paper.name,
                "cited": paper.cited,
                "figures": [_figure(figure, reports) for figure in paper.figures],
            }
            for paper in papers
        ],
    }


def _figure(figure: Figure, reports: Reports) -> dict[str, Any]:
    return {
        "name": figure.name,
        "title": figure.title,
        "where": figure.where,
        "rests_on": figure.rests_on,
        "absent": figure.absent,
        "rows": [_row(row, reports) for row in figure.rows],
        "plots": [_plot(plot, reports) for plot in figure.plots],
    }


def _row(row: Row, reports: Reports) -> dict[str, Any]:
    ours = None if row.ours is None else _reading(row.ours, reports)
    found = None if ours is None else ours["value"]
    deviation = None if found is None or row.quoted is None else found - row.quoted
    percent = None if deviation is None or not row.quoted else 100 * deviation / row.quoted
    return {
        "label": row.label,
        "unit": row.unit,
        "quoted": row.quoted,
        "said": row.said,
        "ours": ours,
        "vivace": None if row.vivace is None else _reading(row.vivace, reports),
        "deviation": deviation,
        "deviation_percent": percent,
    }


def _reading(reading: Reading, reports: Reports) -> dict[str, Any]:
    report = reports.get(reading.report, {"failed": "it was not run"})
    found = reading.of(report.get("figures", {}))
    missing = ""
    if found is None:
        why = report.get("failed", "its report has no such figure; a whole run may")
        missing = f"run bench-{report.get('benchmark', reading.report)}: {why}"
    return {
        "report": reading.report,
        "formula": reading.formula.value,
        "keys": list(reading.keys),
        "value": found,
        "missing": missing,
    }


def _plot(plot: Plot, reports: Reports) -> dict[str, Any]:
    return {
        "title": plot.title,
        "x": plot.x,
        "y": plot.y,
        "log_x": plot.log_x,
        "log_y": plot.log_y,
        "curves": [_curve(curve, reports) for curve in plot.curves],
        "quotes": [{"label": each.label, "x": each.x, "y": each.y} for each in plot.quotes],
    }


def _curve(curve: Curve, reports: Reports) -> dict[str, Any]:
    figures: Mapping[str, float] = reports.get(curve.report, {}).get("figures", {})
    pattern = re.compile(curve.pattern)
    places = "x" in pattern.groupindex
    points: list[tuple[float, float]] = []
    level = None
    for key, found in figures.items():
        if (match := pattern.fullmatch(key)) is None:
            continue
        if places:
            points.append((float(match["x"]), found))
        else:
            level = found
    return {
        "label": curve.label,
        "report": curve.report,
        "pattern": curve.pattern,
        "points": [list(point) for point in sorted(points)],
        "level": level,
    }
