"""Lines that are sent together."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.api.sending import _bodies, opened  # pyright: ignore[reportPrivateUsage]


def bodies(folder: Path, text: str) -> list[tuple[bytes, str]]:
    """What is sent of a file."""
    file = folder / "lines"
    file.write_text(text)
    with opened(file) as lines:
        return list(_bodies(lines, None))


def test_lines_of_csv_follow_their_header(tmp_path: Path) -> None:
    assert bodies(tmp_path, "at,k\n1,a\n2,b\n") == [(b"at,k\n1,a\n2,b\n", "text/csv")]


@pytest.mark.parametrize("text", ["1,a\n", "1,a"])
def test_a_single_line_is_sent_since_it_may_be_a_tuple_without_header(
    tmp_path: Path, text: str
) -> None:
    assert bodies(tmp_path, text) == [(b"1,a\n", "text/csv")]


@pytest.mark.parametrize("text", ["", "\n"])
def test_nothing_is_sent_of_an_empty_file(tmp_path: Path, text: str) -> None:
    assert bodies(tmp_path, text) == []
