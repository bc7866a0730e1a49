"""The paths that pages name exist, and ARCHITECTURE.md's code map names every package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

PACKAGES = ("orchestrator", "ha", "placement", "streams", "topology", "foundation")

text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")

_tops = "orchestrator|ha|placement|streams|topology|foundation|tests|docs"
_path = re.compile(rf"`((?:{_tops})(?:/[\w./-]*)?)`")


def section(heading: str) -> str:
    (found,) = re.findall(rf"^## {heading}\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    return found


pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]


@pytest.mark.parametrize("page", pages, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_exists(page: Path) -> None:
    paths = _path.findall(page.read_text(encoding="utf-8"))
    assert not [path for path in paths if not (ROOT / path).exists()]


def test_the_code_map_names_every_package() -> None:
    named = {ROOT / path for path in _path.findall(section("Code map"))}
    packages = {
        file.parent for package in PACKAGES for file in (ROOT / package).rglob("__init__.py")
    }
    covered = {parent for path in named for parent in (path, *path.parents)}
    missing = packages - covered
    assert not sorted(str(folder.relative_to(ROOT)) for folder in missing)


def test_six_walks_name_a_file_each() -> None:
    walks = re.split(r"^\d\. ", section("Six walks for readers who know Flink"), flags=re.M)[1:]
    assert len(walks) == 6
    assert all(_path.search(walk) for walk in walks)
