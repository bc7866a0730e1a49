"""A value that cannot be taken is named by its column and place, whatever it is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.edges.sources.formats.formats import parse, salvage
from orchestrator.edges.sources.formats.row_form import Format, RowForm, Unreadable

KINDS = {"int": "1", "float": "1.5", "string": '"a"', "bool": "true"}
VALUES = (
    *("1", "1.0", "1e3", "1.5", "-0.0", "1e400", "-1e400", "1e-400", "9223372036854775808"),
    *("1." + "0" * 60 + "1", "1" * 80, "null", "true", "NaN", "Infinity", "-Infinity"),
    *('"a"', '"1"', '"NaN"', '""', '"\\u001f1.5"', '"\\ud800"', "[]", "[1]", "{}", '{"a": 1}'),
)
TIMES = ("ms", "s", "iso")
_placed = re.compile(r"line (\d+): (column value\b|no JSON: )")


@st.composite
def rows(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A type, and values of which any may be wrong."""
    kind = draw(st.sampled_from([*KINDS, *TIMES]))
    good = st.sampled_from([KINDS.get(kind, "1"), "null" if kind in KINDS else "1"])
    return kind, draw(st.lists(st.one_of(good, st.sampled_from(VALUES)), min_size=1, max_size=6))


def refused(form: RowForm, format_: Format, lines: list[bytes]) -> list[int]:
    """Numbers of the lines that cannot be read alone; what is said of each is looked at."""
    said: dict[int, str] = {}
    for number, line in enumerate(lines, 1):
        try:
            parse(form, format_, line, header=False)
        except Unreadable as error:
            said[number] = str(error)
    assert [text for text in said.values() if not _placed.match(text)] == []
    assert "Failed to convert" not in "".join(said.values())
    return list(said)


def check_together(form: RowForm, format_: Format, lines: list[bytes], bad: list[int]) -> None:
    """Together they are taken, or one that is bad is named: a missing value before a wrong one."""
    body = b"\n".join(lines)
    if not bad:
        assert parse(form, format_, body, header=False).num_rows == len(lines)
        return
    with pytest.raises(Unreadable) as found:
        parse(form, format_, body, header=False)
    place = _placed.match(str(found.value))
    assert place is not None, found.value
    assert int(place[1]) in bad


def form_of(kind: str) -> RowForm:
    if kind in KINDS:
        return RowForm(columns={"value": kind, "beside": "int"})
    return RowForm(columns={"beside": "int"}, time_column="value", time_format=kind)


@given(rows())
def test_a_row_of_json_is_taken_or_named(drawn: tuple[str, list[str]]) -> None:
    kind, values = drawn
    form = form_of(kind)
    lines = [f'{{"value": {value}, "beside": 1}}'.encode() for value in values]
    bad = refused(form, Format.JSON, lines)
    told: list[int] = []
    list(salvage(form, Format.JSON, b"\n".join(lines), lambda number, _, __: told.append(number)))
    assert told == bad
    check_together(form, Format.JSON, lines, bad)


@given(rows())
def test_a_line_of_csv_is_taken_or_named(drawn: tuple[str, list[str]]) -> None:
    kind, values = drawn
    form = form_of(kind)
    lines = [f"{value.strip(chr(34))},1".encode() for value in values if "," not in value]
    bad = refused(form, Format.CSV, lines)
    told: list[int] = []
    list(salvage(form, Format.CSV, b"\n".join(lines), lambda number, _, __: told.append(number)))
    assert told == bad
    check_together(form, Format.CSV, lines, bad)
