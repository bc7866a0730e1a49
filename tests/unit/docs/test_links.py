"""Links within the papers for people lead somewhere, and rows belong to tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

pages = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
)

_link = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]*))?\)")


def anchors(page: Path) -> set[str]:
    """Names that headings can be linked by."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", pages, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for path, anchor in _link.findall(page.read_text(encoding="utf-8")):
        target = page.parent / path if path else page
        assert target.exists(), f"{path} does not exist"
        assert not anchor or anchor in anchors(target), f"{path} has no heading {anchor}"


@pytest.mark.parametrize("page", pages, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_row_belongs_to_a_table_with_a_header(page: Path) -> None:
    text = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert re.match(r".*\n\|[ |:-]+\|\n", table), f"no header: {table[:80]}"
