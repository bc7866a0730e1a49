"""Each invariant of docs/protocol.md and of ARCHITECTURE.md names a check that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestrator.store import protocol
from orchestrator.store.protocol import Key, RecordFolder

ROOT = Path(__file__).resolve().parents[3]

PROTOCOL = ROOT / "docs" / "protocol.md"
PAGES = [ROOT / "ARCHITECTURE.md", PROTOCOL, *sorted((ROOT / "docs" / "protocol").glob("*.md"))]

_check = re.compile(r"`([\w/]+\.py)`\s+\(((?:`\w+`(?:,\s+|\)))+)")
_row = re.compile(r"^\| P(\d+) \| [^|]+\. \| ([^|]+) \|$", re.MULTILINE)


def checks(text: str) -> list[tuple[str, str]]:
    """Files with the functions or classes in brackets behind them."""
    return [
        (file, name) for file, names in _check.findall(text) for name in re.findall(r"\w+", names)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_checks_that_a_page_names_exist(page: Path) -> None:
    for file, name in checks(page.read_text(encoding="utf-8")):
        code = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^\s*(?:def|class) {name}\b", code, re.MULTILINE), f"{file}: {name}"


def test_each_invariant_is_a_sentence_with_a_check() -> None:
    rows = _row.findall(PROTOCOL.read_text(encoding="utf-8"))
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    assert len(rows) > 20
    assert all(checks(held) for _, held in rows)


def test_every_path_of_the_store_has_a_row() -> None:
    page = (ROOT / "docs" / "protocol" / "store.md").read_text(encoding="utf-8")
    rows = "\n".join(line for line in page.splitlines() if line.startswith("| `"))
    for each in vars(protocol).values():
        if isinstance(each, RecordFolder):
            assert f"`{each.path}/" in rows
        elif isinstance(each, Key):
            assert f"`{each.path}`" in rows


def test_the_architecture_is_read_in_one_sitting() -> None:
    assert (ROOT / "ARCHITECTURE.md").stat().st_size <= 25_000
