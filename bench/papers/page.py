"""The page: one file of HTML with all tables and plots in it, which needs no network."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, cast

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: .5rem 0 }
th, td { padding: .15rem .7rem; border-bottom: 1px solid #ccc; text-align: left }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
.why { color: #666; font-size: 13px }
svg { max-width: 100%; height: auto }
h2 { margin-top: 3rem } h3 { margin-top: 2rem }
"""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")
"""Okabe and Ito's, told apart by colour-blind readers."""

EMPTY = "<td class='n'></td>"

MISSING = "…"
"""Stands for a number that no report has; a line below the table says why."""

NOTHING_PERCENT = 0.5
TIMES_PERCENT = 900.0
"""From which deviation on it is shown, and from which on as a multiple."""


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
        if "failed" not in report and "status" in report:
            told += "; its results are not what they must be"
        benchmark, arguments = report["benchmark"], report.get("arguments", ())
        command = " ".join(["python -m bench run", benchmark, *arguments])
        rows.append(f"<tr><td><code>{_text(command)}</code></td><td>{_text(told)}</td></tr>")
    kind = (
        "This was a quick run: few repetitions, to see that it works, not to quote."
        if document["quick"]
        else "This was a whole run."
    )
    return f"<p>{kind}</p><table><tr><th>benchmark<th>measured at</tr>{''.join(rows)}</table>"


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


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows, in the columns of which any row has something, and what is missing there."""
    columns = [
        (title, cells)
        for title, cells in (
            ("paper", [f"<td class='n'>{_text(_quoted(row))}</td>" for row in rows]),
            ("reproduced", [_cell(row["ours"]) for row in rows]),
            ("deviation", [f"<td class='n'>{_deviation(row)}</td>" for row in rows]),
            ("Vivace", [_cell(row["vivace"]) for row in rows]),
        )
        if any(cell != EMPTY for cell in cells)
    ]
    made = ["<table><tr><th>" + "".join(f"<th class='n'>{title}" for title, _ in columns) + "</tr>"]
    for at, row in enumerate(rows):
        unit = f" <span class='why'>{_text(row['unit'])}</span>" if row["unit"] else ""
        cells = "".join(cells[at] for _, cells in columns)
        made.append(f"<tr><td>{_text(row['label'])}{unit}</td>{cells}</tr>")
    readings = [row[each] for row in rows for each in ("ours", "vivace") if row[each] is not None]
    missing = dict.fromkeys(each["missing"] for each in readings if each["value"] is None)
    notes = [f"<p class='why'>{MISSING}: {_text(each)}</p>" for each in missing]
    return "\n".join([*made, "</table>", *notes])


def _quoted(row: Mapping[str, Any]) -> str:
    if row["said"]:
        return str(row["said"])
    return "" if row["quoted"] is None else _number(row["quoted"])


def _cell(reading: Mapping[str, Any] | None) -> str:
    if reading is None:
        return EMPTY
    told = f"{reading['report']}: " + f" {reading['formula']} ".join(reading["keys"])
    shown = MISSING if reading["value"] is None else _number(reading["value"])
    return f"<td class='n' title='{escape(told)}'>{shown}</td>"


def _deviation(row: Mapping[str, Any]) -> str:
    """The difference, and its part of the paper's value; or how many times that value ours is."""
    deviation, percent = row["deviation"], row["deviation_percent"]
    if deviation is None:
        return ""
    if percent is None or abs(percent) < NOTHING_PERCENT:
        return _signed(deviation) if percent is None else "0"
    if percent >= TIMES_PERCENT:
        return f"× {_number(1 + percent / 100)}"
    return f"{_signed(deviation)} ({_signed(round(percent))} %)"


def _signed(value: float) -> str:
    sign = "" if not value else "−" if value < 0 else "+"
    return sign + (f"{abs(value):,.0f}" if abs(value) >= 1000 else f"{abs(value):.3g}")


def _text(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text, quote=False))


def _number(value: float) -> str:
    """Four digits, and all of those before the point."""
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
