"""The page: one file of HTML with all tables and plots in it, which needs no network."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, cast

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: .5rem 0 }
th, td { padding: .15rem .7rem; border-bottom: 1px solid #ccc; text-align: left }
td.n { text-align: right; font-variant-numeric: tabular-nums }
.why { color: #666; font-size: 13px }
svg { max-width: 100%; height: auto }
h2 { margin-top: 3rem } h3 { margin-top: 2rem }
"""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")
"""Okabe and Ito's, told apart by colour-blind readers."""


def page(document: Mapping[str, Any]) -> str:
    """The page of a document, as `papers.json` holds it."""
    papers = cast("Sequence[Mapping[str, Any]]", document["papers"])
    parts = [
        '<!doctype html><html lang="en"><meta charset="utf-8">',
        f"<title>Five papers, reproduced</title><style>{STYLE}</style>",
        "<h1>Five papers, reproduced</h1>",
        "<p>Every table and figure of the five papers that Vivace implements, beside what the "
        "paper's text quotes of it. <em>Reproduced</em> is the paper's method or experiment; "
        "<em>Vivace</em> is the product's own method, or its hosts, where these differ. "
        "<code>papers.json</code> beside this page holds the reports and says which figures "
        "of them each number is.</p>",
        _runs(document),
    ]
    for paper in papers:
        parts.append(f"<h2>{_text(paper['name'])}</h2><p><cite>{_text(paper['cited'])}</cite></p>")
        parts += [_figure(figure) for figure in paper["figures"]]
    return "\n".join(parts) + "\n</html>\n"


def _runs(document: Mapping[str, Any]) -> str:
    rows: list[str] = []
    for report in document["reports"].values():
        told = report.get("failed") or f"commit {report['commit'][:8] or 'unknown'}"
        benchmark, arguments = report["benchmark"], report.get("arguments", ())
        command = " ".join(["python -m bench run", benchmark, *arguments])
        rows.append(f"<tr><td><code>{_text(command)}</code></td><td>{_text(told)}</td></tr>")
    kind = (
        "This was a quick run: few repetitions, to see that it works, not to quote."
        if document["quick"]
        else "This was a whole run."
    )
    return f"<p>{kind}</p><table><tr><th>benchmark<th></tr>{''.join(rows)}</table>"


def _figure(figure: Mapping[str, Any]) -> str:
    parts = [
        f"<h3>{_text(figure['name'])}. {_text(figure['title'])} "
        f'<span class="why">{_text(figure["where"])}</span></h3>',
        f"<p>{_text(figure['rests_on'])}</p>",
    ]
    if figure["absent"]:
        parts.append(f"<p>Not reproduced: {_text(figure['absent'])}</p>")
    if figure["rows"]:
        parts.append(_table(figure["rows"]))
    parts += [drawn for plot in figure["plots"] if (drawn := _svg(plot))]
    return "\n".join(parts)


def _table(rows: Iterable[Mapping[str, Any]]) -> str:
    made = ["<table><tr><th><th>paper<th>reproduced<th>deviation<th>Vivace</tr>"]
    for row in rows:
        unit = f" <span class='why'>{_text(row['unit'])}</span>" if row["unit"] else ""
        quoted = row["said"] if row["said"] else _number(row["quoted"])
        made.append(
            f"<tr><td>{_text(row['label'])}{unit}</td><td class='n'>{_text(quoted)}</td>"
            f"{_cell(row['ours'])}<td class='n'>{_deviation(row)}</td>{_cell(row['vivace'])}</tr>"
        )
    return "\n".join([*made, "</table>"])


def _cell(reading: Mapping[str, Any] | None) -> str:
    if reading is None:
        return "<td class='n'></td>"
    if reading["value"] is None:
        return f"<td class='why'>{_text(reading['missing'])}</td>"
    told = f"{reading['report']}: " + f" {reading['formula']} ".join(reading["keys"])
    return f"<td class='n' title='{escape(told)}'>{_number(reading['value'])}</td>"


def _deviation(row: Mapping[str, Any]) -> str:
    if row["deviation"] is None:
        return ""
    if row["deviation_percent"] is None:
        return f"{row['deviation']:+.3g}"
    return f"{row['deviation']:+.3g} ({row['deviation_percent']:+.0f} %)"


def _text(text: str) -> str:
    return escape(text, quote=False)


def _number(value: float | None) -> str:
    """Four digits, and all of those before the point."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _svg(plot: Mapping[str, Any]) -> str:
    """The plot; empty if there is nothing to draw."""
    curves = [each for each in plot["curves"] if each["points"] or each["level"] is not None]
    if not curves:
        return ""
    import matplotlib
    from matplotlib.figure import Figure

    # Through Any, for matplotlib's annotations leave keyword arguments open.
    mpl = cast("Any", matplotlib)
    figure = cast("Any", Figure(figsize=(6.4, 3.6), layout="constrained"))
    axes = figure.subplots()
    labels = [each["label"] for each in plot["curves"]]
    for curve in curves:
        at = labels.index(curve["label"])
        colour = COLOURS[at % len(COLOURS)]
        if curve["level"] is not None:
            axes.axhline(curve["level"], color=colour, linestyle="--", label=curve["label"])
        else:
            xs, ys = zip(*curve["points"], strict=True)
            axes.plot(xs, ys, "o-", markersize=3, color=colour, label=curve["label"])
    for quote in plot["quotes"]:
        at = labels.index(quote["label"]) if quote["label"] in labels else 0
        axes.plot([quote["x"]], [quote["y"]], "x", color=COLOURS[at % len(COLOURS)])
    if plot["log_x"]:
        axes.set_xscale("log")
    if plot["log_y"]:
        axes.set_yscale("log")
    crosses = " (×: the paper)" if plot["quotes"] else ""
    axes.set_title(plot["title"] + crosses, fontsize=10)
    axes.set_xlabel(plot["x"])
    axes.set_ylabel(plot["y"])
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=7)
    made = io.StringIO()
    # Nothing in it may differ from one drawing to the next, or be fetched.
    with mpl.rc_context({"svg.hashsalt": plot["title"], "svg.fonttype": "none"}):
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(made, format="svg", metadata=nothing)
    drawn = made.getvalue()
    return re.sub(r"<metadata>.*?</metadata>", "", drawn[drawn.index("<svg") :], flags=re.DOTALL)
