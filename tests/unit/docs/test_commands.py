"""Commands that pages show exist, and figures in README have the labels that are printed."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.cli.application import application
from orchestrator.cli.verbs import GROUPS

ROOT = Path(__file__).resolve().parents[3]

pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]

_vivace = re.compile(r"^(?:\$ |    )vivace +([^#\n]*)", re.MULTILINE)
_make = re.compile(r"(?:^    |`)make ([a-z][\w-]*)", re.MULTILINE)
_verdict = re.compile(r"^Verdict\n(.*?)```", re.MULTILINE | re.DOTALL)
_drill = re.compile(r"^Drill kill-executor\n(.*?)```", re.MULTILINE | re.DOTALL)


@cache
def help_of(verb: tuple[str, ...]) -> str:
    app = application(verb[0] if verb else None)
    result = CliRunner().invoke(app, [*verb, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code == 0, verb
    return result.output


@pytest.mark.slow
@pytest.mark.parametrize("page", pages, ids=lambda page: str(page.relative_to(ROOT)))
def test_verbs_and_options_exist(page: Path) -> None:
    whole_lines = page.read_text(encoding="utf-8").replace("\\\n", "")
    for line in _vivace.findall(whole_lines):
        words = shlex.split(line)
        depth = 2 if words[0] in GROUPS else 1
        verb = tuple(words[:depth]) if not words[0].startswith("-") else ()
        for option in (word for word in words[len(verb) :] if word.startswith("-")):
            assert re.search(rf"{option}\b", help_of(verb)), line
        help_of(verb)


@pytest.mark.parametrize("page", pages, ids=lambda page: str(page.relative_to(ROOT)))
def test_targets_of_make_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    for target in _make.findall(page.read_text(encoding="utf-8")):
        assert target in targets or target.startswith("bench-"), target


@pytest.mark.parametrize("block", [_verdict, _drill], ids=["demo", "drill"])
def test_figures_of_a_verdict_are_those_that_are_printed(block: re.Pattern[str]) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    render = ROOT / "orchestrator" / "cli" / "render"
    code = "".join((render / name).read_text("utf-8") for name in ("verdict.py", "drills.py"))
    printed = re.findall(r'^\s+\(?\s*"([a-z, ]+)",', code, re.M)
    (shown,) = block.findall(text)
    labels = [line[:21].strip() for line in shown.splitlines() if line[:21].strip()[:1].isalpha()]
    assert len(labels) >= 8
    assert not [label for label in labels if label not in printed]
