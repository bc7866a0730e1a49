"""The page of the papers: every number on it follows from the reports beside it."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from bench.papers import command
from bench.papers.catalogue import PAPERS
from bench.papers.document import document
from bench.papers.entries import Figure, Formula, Paper, Reading, Row, place_of_least, value
from bench.papers.page import page
from bench.papers.reports import RUNS, Report


def figures() -> list[Any]:
    return [figure for paper in PAPERS for figure in paper.figures]


def readings() -> list[Reading]:
    rows = [row for figure in figures() for row in figure.rows]
    return [each for row in rows for each in (row.ours, row.vivace) if each is not None]


def made_up() -> dict[str, Report]:
    """Reports with every figure that the catalogue reads, and points of every curve."""
    reports: dict[str, Report] = {
        run.report: {"benchmark": run.benchmark, "commit": "c" * 40, "arguments": [], "figures": {}}
        for run in RUNS
    }
    keys = [(each.report, key) for each in readings() for key in each.keys]
    for order, (benchmark, key) in enumerate(dict.fromkeys(keys)):
        reports[benchmark]["figures"][key] = 10.0 + order
    for figure in figures():
        for curve in (curve for plot in figure.plots for curve in plot.curves):
            for x in ("1", "10"):
                key = re.sub(r"\(\?P<x>[^)]*\)", x, curve.pattern).replace("\\", "")
                reports[curve.report]["figures"].setdefault(key, 0.5)
    return reports


def test_every_table_and_figure_says_what_it_rests_on_and_what_is_missing_says_why() -> None:
    for figure in figures():
        assert figure.rests_on.endswith(".")
        assert bool(figure.absent) != bool(figure.rows or figure.plots)


def test_every_benchmark_that_is_read_is_run() -> None:
    curves = [c for figure in figures() for plot in figure.plots for c in plot.curves]
    named = {each.report for each in (*readings(), *curves)}
    assert named == {run.report for run in RUNS}


def test_the_document_is_computed_again_from_its_own_reports(tmp_path: Path) -> None:
    first = document(made_up(), quick=False)
    read = json.loads(json.dumps(first))
    assert document(read["reports"], quick=read["quick"]) == read
    assert page(read) == page(first)


def test_every_number_on_the_page_is_that_of_the_document() -> None:
    shown = document(made_up(), quick=False)
    text = re.sub(r"<svg.*?</svg>", "", page(shown), flags=re.DOTALL)
    cells = iter(re.findall(r"<td class='n'( title='[^']*')?>([^<]*)</td>", text))
    for figure in (figure for paper in shown["papers"] for figure in paper["figures"]):
        rows = figure["rows"]
        has = {
            "quoted": any(row["said"] or row["quoted"] is not None for row in rows),
            **{
                each: any(row[each] is not None for row in rows)
                for each in ("ours", "deviation", "vivace")
            },
        }
        for row, column in ((r, each) for r in rows for each in has if has[each]):
            title, cell = next(cells)
            if column == "quoted":
                assert unescape(cell) == (row["said"] or _shown(row["quoted"]))
            elif column == "deviation":
                assert (cell == "") == (row["deviation"] is None)
                if cell:
                    assert row["deviation"] == row["ours"]["value"] - row["quoted"]
            elif (reading := row[column]) is None:
                assert cell == ""
            else:
                found = Reading(
                    report=reading["report"],
                    keys=tuple(reading["keys"]),
                    formula=Formula(reading["formula"]),
                    places=tuple(range(len(reading["keys"]))),
                ).of(shown["reports"][reading["report"]]["figures"])
                assert found is not None
                if reading["formula"] != Formula.PLACE_OF_LEAST.value:
                    assert reading["value"] == found
                assert cell == _shown(reading["value"])
                assert reading["keys"][0] in unescape(title)
    assert next(cells, None) is None


def _shown(number: float | None) -> str:
    if number is None:
        return ""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


@pytest.mark.parametrize(
    ("quoted", "ours", "shown"),
    [
        (10.0, 10.01, "0"),
        (10.0, 8.0, "−2 (−20 %)"),
        (10.0, 15.0, "+5 (+50 %)"),
        (4.0, 20_344.0, "× 5,086"),
        (0.0, 3.0, "+3"),
        (0.0, 0.0, "0"),
    ],
)
def test_deviations_read_as_differences_or_multiples(
    quoted: float, ours: float, shown: str
) -> None:
    row = Row(label="x", quoted=quoted, ours=value("worked_examples", "x"))
    figure = Figure(name="F", title="t", where="§1", rests_on="It rests.", rows=(row,))
    reports = made_up()
    reports["worked_examples"]["figures"]["x"] = ours
    paper = Paper(name="P", cited="p", figures=(figure,))
    assert f"<td class='n'>{shown}</td>" in page(document(reports, quick=False, papers=[paper]))


def test_the_page_needs_no_network() -> None:
    text = page(document(made_up(), quick=True))
    assert text.count("<svg") == sum(len(figure.plots) for figure in figures())
    # Names of XML are no addresses to fetch.
    addresses = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?([^"')>\s]+)""", text)
    assert [each for each in addresses if not each.startswith("#")] == []
    assert "<script" not in text
    assert "<link" not in text


def test_what_has_no_figure_says_which_benchmark_to_run() -> None:
    reports = made_up()
    failed = "there is no benchmark recursion yet"
    reports["recursion"] = {"benchmark": "recursion", "failed": failed}
    shown = document(reports, quick=True)
    missing = [
        row["ours"]["missing"]
        for paper in shown["papers"]
        for figure in paper["figures"]
        for row in figure["rows"]
        if row["ours"] is not None and row["ours"]["report"] == "recursion"
    ]
    assert missing
    assert set(missing) == {"run bench-recursion: there is no benchmark recursion yet"}
    assert missing[0] in page(shown)


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        (Formula.VALUE, 30),
        (Formula.PERCENT_OF, 75),
        (Formula.PERCENT_LESS, 25),
        (Formula.MINUS, -10),
    ],
)
def test_formulas(formula: Formula, value: float) -> None:
    keys = ("a",) if formula is Formula.VALUE else ("a", "b")
    reading = Reading(report="x", keys=keys, formula=formula)
    assert reading.of({"a": 30, "b": 40}) == pytest.approx(value)
    assert reading.of({"b": 40}) is None


def test_the_place_of_the_least_is_the_first_of_equal_ones() -> None:
    reading = place_of_least("x", "k.{}", (1.0, 2.0, 5.0))
    assert reading.of({"k.1": 3, "k.2": 0, "k.5": 0}) == 2
    assert reading.of({"k.5": 1}) == 5
    assert reading.of({}) is None


def test_files_hold_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = {"benchmark": "recursion", "failed": "it failed: why", "status": 1}
    reports = made_up() | {"recursion": failed}

    def known(*_: object, **__: object) -> dict[str, Report]:
        return reports

    monkeypatch.setattr(command, "reports", known)
    done = command.papers(tmp_path, quick=True, reuse=False, say=lambda _: None)
    assert done == ["recursion"]
    held = json.loads((tmp_path / "papers.json").read_text())
    assert (tmp_path / "index.html").read_text() == page(held)
    assert document(held["reports"], quick=True) == held
