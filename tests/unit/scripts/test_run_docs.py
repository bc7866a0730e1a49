"""Blocks of pages, and where they run."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.run_docs import DocumentBlock, blocks, run_page

PAGE = """\
Text.

    one
    two

    three

- A list
    goes on

  with a paragraph

<!-- on: there -->
    four

<!-- skip: it takes a ship -->
    five
"""


def test_blocks_have_a_line_and_a_place() -> None:
    assert [*blocks(PAGE)] == [
        DocumentBlock(3, "one\ntwo\n\nthree\n"),
        DocumentBlock(14, "four\n", "there"),
        DocumentBlock(17, "five\n", "", "it takes a ship"),
    ]


def test_a_page_runs_in_order_and_ends_with_a_block_that_fails(tmp_path: Path) -> None:
    page, ran, said = tmp_path / "page.md", list[str](), list[str]()
    page.write_text(PAGE)

    def fails(text: str) -> None:
        raise RuntimeError(text)

    run_page(page, {"here": ran.append, "there": ran.append}, said.append)
    assert ran == ["one\ntwo\n\nthree\n", "four\n"]
    assert said[-1] == "-- page.md:17 skipped: it takes a ship\n"
    with pytest.raises(RuntimeError, match="one"):
        run_page(page, {"here": fails, "there": ran.append}, said.append)
    assert len(ran) == 2
    with pytest.raises(ValueError, match=r"page.md:14: there is no place 'there'"):
        run_page(page, {"here": ran.append}, said.append)
