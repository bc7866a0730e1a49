"""Lines of files into a real HTTP source: what is accepted, what is said, what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import vivace
from orchestrator.api.lines import bodies, opened, sorted_bodies
from orchestrator.api.sending import (
    LinesRefused,
    SkippedLines,
    _Sending,  # pyright: ignore[reportPrivateUsage]
)
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.edges.sources.formats.form_options import row_form
from orchestrator.edges.sources.http import Http
from orchestrator.edges.sources.live.live_input import LiveInput
from orchestrator.errors import InvalidInput
from orchestrator.records import SourceAssignment, SourceSpec

NOW_US = 1_700_000_000_000_000
COLUMNS = {"k": "int"}
OPTIONS = Http(time_column="at", time_format="ms", idle_after_ms=None, max_ahead_ms=None)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[LiveInput]:
    assigned = SourceAssignment(
        stream="north",
        columns=COLUMNS,
        source=SourceSpec(driver="http", guarantee=OPTIONS.guarantee),
        start_at_us=None,
    )
    made = OPTIONS.open(
        assigned,
        SourceContext(folder=tmp_path / "site", clock_us=lambda: NOW_US, buffer_bytes=2**23),
    )
    assert isinstance(made, LiveInput)
    yield made
    made.close()


def send(
    source: LiveInput, file: Path, *, is_sorted: bool = False, skip_bad: Path | None = None
) -> vivace.Sent:
    assert source.address is not None
    address = source.address.removesuffix("/streams/north")
    form = row_form(OPTIONS, COLUMNS)
    kept = None if skip_bad is None else SkippedLines(skip_bad)
    with opened(file) as lines:
        sending = _Sending(vivace.site(address).stream("north"), lines, form, kept)
        given = bodies(lines, None)
        if is_sorted:
            given = sorted_bodies(lines, None, form, sending.refuse)
        for _ in sending.all(given):
            pass
    return sending.sent


def entered(source: LiveInput) -> list[int]:
    rows: list[int] = []
    while (emitted := source.emit(0, NOW_US)) is not None:
        rows += emitted.rows.column(1).to_pylist()
    return rows


def written(folder: Path, lines: list[str]) -> Path:
    file = folder / "given.csv"
    file.write_text("\n".join(["at,k", *lines, ""]))
    return file


LARGE = 60_000
"""Lines of more than one body."""


def test_a_file_that_is_sorted_by_something_else_is_accepted_whole_once_sorted(
    source: LiveInput, tmp_path: Path
) -> None:
    stamps = [*range(LARGE, 2 * LARGE), *range(LARGE)]
    file = written(tmp_path, [f"{1_000_000 + at},{at}" for at in stamps])
    sent = send(source, file, is_sorted=True)
    # The newest one waits.
    assert (sent.accepted, sent.late, sent.waiting) == (2 * LARGE, 0, 1)
    assert entered(source) == list(range(2 * LARGE - 1))


def test_without_sorting_those_that_come_too_late_are_counted(
    source: LiveInput, tmp_path: Path
) -> None:
    stamps = [*range(2 * LARGE, 4 * LARGE), *range(LARGE)]
    file = written(tmp_path, [f"{1_000_000 + at},{at}" for at in stamps])
    sent = send(source, file)
    assert sent.accepted + sent.late == 3 * LARGE
    assert sent.late > LARGE / 2


def test_the_first_line_that_cannot_be_read_ends_it_and_what_was_not_sent_is_counted(
    source: LiveInput, tmp_path: Path
) -> None:
    lines = [f"{1_000_000 + at},{at}" for at in range(3 * LARGE)]
    lines[2 * LARGE] = "1000000,x"
    file = written(tmp_path, lines)
    with pytest.raises(LinesRefused) as refused:
        send(source, file)
    said = str(refused.value)
    assert said.startswith(f"line {2 * LARGE + 2:,}: ")
    assert f"{2 * LARGE:,} tuples before it were accepted" in said
    assert f"the {LARGE:,} lines from it on were not sent" in said
    assert "--skip-bad FILE" in said
    assert refused.value.exit_status == 1
    assert entered(source) == list(range(2 * LARGE - 1))


@pytest.mark.parametrize("is_sorted", [False, True])
def test_lines_that_cannot_be_read_are_kept_in_a_file_that_can_be_sent_once_mended(
    source: LiveInput, tmp_path: Path, is_sorted: bool
) -> None:
    lines = [f"{1_000_000 + at},{at}" for at in range(1000)]
    lines[10], lines[500] = "1000010,x", "x,500"
    kept = tmp_path / "kept.csv"
    sent = send(source, written(tmp_path, lines), is_sorted=is_sorted, skip_bad=kept)
    assert sent.accepted == 998
    assert kept.read_text() == "at,k\n1000010,x\nx,500\n"
    assert entered(source) == [at for at in range(999) if at not in (10, 500)]
    with pytest.raises(InvalidInput, match="is there already"):
        SkippedLines(kept)


def test_nothing_is_sent_of_a_file_that_cannot_be_sorted(source: LiveInput, tmp_path: Path) -> None:
    file = written(tmp_path, ["5,5", "x,4"])
    with pytest.raises(LinesRefused, match=r"^line 3: .*\. Nothing was sent\. ") as refused:
        send(source, file, is_sorted=True)
    assert refused.value.exit_status == 2
    assert entered(source) == []
