"""Runs what pages tell their readers to type, block by block: `make run-docs`.

A block is a paragraph of lines that are indented by four spaces. A comment of HTML in the line
before it, which readers do not see, says where it runs:

    <!-- on: PLACE -->       somewhere else than at the reader's own machine
    <!-- skip: REASON -->    nowhere, since what it takes is not here

A block that fails ends the page.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = "here"
"""Place of blocks without a comment."""

_comment = re.compile(r"<!-- (on|skip): (.+) -->")

Run = Callable[[str], None]
"""Runs the text of a block somewhere; raises if it fails."""


@dataclass(frozen=True, slots=True)
class DocumentBlock:
    """A block of a page.

    Attributes
    ----------
    line
        Its first one, from 1.
    place
        Where it runs; empty: nowhere.
    reason
        Why nowhere.
    """

    line: int
    text: str
    place: str = HERE
    reason: str = ""


def blocks(page: str) -> Iterator[DocumentBlock]:
    """The blocks of a page, in order."""
    lines = page.splitlines()
    at = 0
    while at < len(lines):
        # What is indented after text goes on with it, such as a list's paragraph.
        begins = lines[at].startswith("    ") and (at == 0 or _ends_text(lines[at - 1]))
        if not begins:
            at += 1
            continue
        end = at
        while end < len(lines) and (lines[end].startswith("    ") or _goes_on(lines, end)):
            end += 1
        text = textwrap.dedent("\n".join(lines[at:end])).strip("\n") + "\n"
        comment = _comment.fullmatch(lines[at - 1]) if at else None
        match comment and comment.groups():
            case ("on", place):
                yield DocumentBlock(at + 1, text, place)
            case ("skip", reason):
                yield DocumentBlock(at + 1, text, "", reason)
            case _:
                yield DocumentBlock(at + 1, text)
        at = end


def _ends_text(line: str) -> bool:
    return not line.strip() or _comment.fullmatch(line) is not None


def _goes_on(lines: list[str], at: int) -> bool:
    """Whether an empty line is within a block."""
    return not lines[at].strip() and any(line.startswith("    ") for line in lines[at + 1 : at + 2])


def run_page(
    page: Path, places: Mapping[str, Run], say: Callable[[str], object] = sys.stderr.write
) -> list[DocumentBlock]:
    """Run all blocks of a page; those that ran.

    Parameters
    ----------
    places
        Place → what runs blocks there.

    Raises
    ------
    ValueError
        A block is to run at a place that is not there.
    """
    ran: list[DocumentBlock] = []
    for block in blocks(page.read_text("utf-8")):
        where = f"{page.name}:{block.line}"
        if not block.place:
            say(f"-- {where} skipped: {block.reason}\n")
            continue
        if block.place not in places:
            raise ValueError(f"{where}: there is no place {block.place!r}")
        say(f"-- {where} on {block.place}\n{textwrap.indent(block.text, '   ')}")
        places[block.place](block.text)
        ran.append(block)
    return ran
