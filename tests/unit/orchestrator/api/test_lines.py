"""Lines of a file: together, by number, sorted, and those that cannot be read."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import BinaryIO

import pytest

from orchestrator.api import lines as lines_of
from orchestrator.api.lines import (
    BadLine,
    Body,
    bad_lines,
    before,
    bodies,
    lines_left,
    opened,
    sorted_bodies,
    without,
)
from orchestrator.edges.sources.formats.formats import parse
from orchestrator.edges.sources.formats.row_form import Format, RowForm
from orchestrator.errors import InvalidInput

FORM = RowForm(columns={"k": "int"}, time_column="at", time_format="ms")


def file_of(folder: Path, text: str) -> Path:
    file = folder / "lines"
    file.write_text(text)
    return file


def sent(folder: Path, text: str) -> list[tuple[bytes, Format]]:
    """What is sent of a file."""
    with opened(file_of(folder, text)) as lines:
        return [(body.content, body.written) for body in bodies(lines, None)]


def test_lines_of_csv_follow_their_header(tmp_path: Path) -> None:
    assert sent(tmp_path, "at,k\n1,a\n2,b\n") == [(b"at,k\n1,a\n2,b\n", Format.CSV)]


@pytest.mark.parametrize("text", ["1,a\n", "1,a"])
def test_a_single_line_is_sent_since_it_may_be_a_tuple_without_header(
    tmp_path: Path, text: str
) -> None:
    assert sent(tmp_path, text) == [(b"1,a\n", Format.CSV)]


@pytest.mark.parametrize("text", ["", "\n"])
def test_nothing_is_sent_of_an_empty_file(tmp_path: Path, text: str) -> None:
    assert sent(tmp_path, text) == []


def test_lines_have_the_numbers_that_an_editor_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_of, "BODY_BYTES", 16)
    text = "at,k\n" + "".join(f"{n},{n}\n" for n in range(20)) + "\n\n20,x\n21,21"
    with opened(file_of(tmp_path, text)) as file:
        made = list(bodies(file, None))
    assert len(made) > 3
    for body in made:
        assert text.splitlines()[body.first - 1] == body.lines.splitlines()[0].decode()
        assert text.encode()[body.begin :].startswith(body.lines.rstrip(b"\n"))
    bad = [each for body in made for each in bad_lines(FORM, body)[1]]
    assert [(each.number, each.line) for each in bad] == [(24, b"20,x")]


def test_a_body_is_divided_at_the_lines_that_cannot_be_read() -> None:
    body = Body(written=Format.CSV, header=b"at,k\n", lines=b"1,1\n\nx,2\n3,3\n4,y\n", first=7)
    found, bad = bad_lines(FORM, body)
    assert [each.tolist() for each in found] == [[1], [3]]
    assert [(each.number, each.place, each.line) for each in bad] == [
        (9, 2, b"x,2"),
        (11, 4, b"4,y"),
    ]
    assert all("at" in each.reason or "k" in each.reason for each in bad)
    assert without(body, bad).content == b"at,k\n1,1\n\n3,3\n"
    assert before(body, bad[0]).content == b"at,k\n1,1\n\n"


@pytest.mark.parametrize("end", ["", "\n"])
def test_the_lines_that_are_not_sent_are_counted(tmp_path: Path, end: str) -> None:
    text = "".join(f'{{"at": {n}, "k": {n}}}\n' for n in range(9)) + '{"at": 9, "k": 9}' + end
    with opened(file_of(tmp_path, text)) as file:
        body = next(bodies(file, None))
        bad = BadLine(number=4, place=3, line=b"", reason="")
        assert lines_left(file, body, bad) == 7


def read(lines: list[Body]) -> list[str]:
    return [line.decode() for body in lines for line in body.lines.splitlines()]


@pytest.mark.parametrize("from_pipe", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_sorted_lines_are_those_of_the_file_in_the_order_of_event_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, from_pipe: bool
) -> None:
    monkeypatch.setattr(lines_of, "BODY_BYTES", 100)
    draw = random.Random(seed)
    rows = [f"{draw.randrange(50)},{n}" for n in range(200)]
    blank = [draw.choice(("", "\n")) for _ in rows]
    text = "at,k\n" + "".join(map("{}\n{}".format, rows, blank))
    file = file_of(tmp_path, text if draw.random() < 0.5 else text.rstrip("\n"))
    expected = sorted(rows, key=lambda row: int(row.partition(",")[0]))
    with opened(file) as given:
        lines: BinaryIO = given
        if from_pipe:
            out, into = os.pipe()
            os.write(into, file.read_bytes())
            os.close(into)
            lines = os.fdopen(out, "rb", buffering=0)
        made = list(sorted_bodies(lines, None, FORM, lambda _body, _bad: None))
        if from_pipe:
            lines.close()
    assert read(made) == expected
    assert len(made) > 5
    assert {body.header for body in made} == {b"at,k\n"}


def test_lines_that_cannot_be_read_are_told_before_sorted_ones_are_sent(tmp_path: Path) -> None:
    told: list[int] = []
    with opened(file_of(tmp_path, "at,k\n5,5\nx,1\n2,2\n")) as file:
        made = sorted_bodies(file, None, FORM, lambda _, bad: told.extend(b.number for b in bad))
        assert read(list(made)) == ["2,2", "5,5"]
    assert told == [3]


def test_a_file_of_more_lines_than_can_be_sorted_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_of, "MOST_SORTED", 2)
    with (
        opened(file_of(tmp_path, "at,k\n1,1\n2,2\n3,3\n")) as file,
        pytest.raises(InvalidInput, match="sorts 2 lines at most"),
    ):
        list(sorted_bodies(file, None, FORM, lambda _body, _bad: None))


@pytest.mark.parametrize("rest", [b"", b"3,c\n"])
def test_a_line_whose_quote_does_not_end_is_bad_wherever_a_site_would_refuse_its_body(
    rest: bytes,
) -> None:
    form = RowForm(columns={"k": "string"}, time_column="at", time_format="ms")
    body = Body(written=Format.CSV, header=b"at,k\n", lines=b'1,a\n2,"b\n' + rest)
    assert [each.number for each in bad_lines(form, body)[1]] == [2]


@pytest.mark.parametrize("written", [None, Format.JSON])
def test_a_file_of_json_with_a_bom_is_sorted(tmp_path: Path, written: Format | None) -> None:
    form = RowForm(columns={"k": "int"}, time_column="at", time_format="ms")
    file = tmp_path / "lines"
    file.write_text('\ufeff{"at": 5, "k": 1}\n{"at": 3, "k": 2}\n')
    bad: list[BadLine] = []
    with opened(file) as lines:
        found = [*sorted_bodies(lines, written, form, lambda _, some: bad.extend(some))]
    assert bad == []
    rows = [parse(form, body.written, body.content) for body in found]
    assert [batch.column(0).to_pylist() for batch in rows] == [[3, 5]]


def test_a_csv_file_may_begin_with_an_empty_line_however_long_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = RowForm(columns={"k": "int"}, time_column="at", time_format="ms")
    file = file_of(tmp_path, "\nat,k\n" + "".join(f"{n},{n}\n" for n in range(10)))
    # The site takes it if it is sent at once.
    assert parse(form, Format.CSV, file.read_bytes()).num_rows == 10
    monkeypatch.setattr(lines_of, "BODY_BYTES", 16)
    with opened(file) as lines:
        rows = [parse(form, body.written, body.content) for body in bodies(lines, None)]
    assert [at for batch in rows for at in batch.column(0).to_pylist()] == list(range(10))


def test_a_csv_file_that_begins_with_an_empty_line_is_sorted(tmp_path: Path) -> None:
    form = RowForm(columns={"k": "int"}, time_column="at", time_format="ms")
    bad: list[BadLine] = []
    with opened(file_of(tmp_path, "\nat,k\n5,1\n3,2\n")) as lines:
        found = [*sorted_bodies(lines, None, form, lambda _, some: bad.extend(some))]
    assert bad == []
    rows = [parse(form, body.written, body.content) for body in found]
    assert [batch.column(0).to_pylist() for batch in rows] == [[3, 5]]
