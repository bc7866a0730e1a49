"""Every error that a user can cause stands in docs/troubleshooting.md, with its cure."""

from __future__ import annotations

import ast

import pytest

from orchestrator import errors
from scripts.error_messages import FIELDS, PAGE, ROOT, collected, updated


@pytest.mark.slow
def test_the_page_has_every_message() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert updated(page) == page, "run: python -m scripts.error_messages"


@pytest.mark.slow
def test_every_message_has_a_cure() -> None:
    found = collected()
    assert len(found) > 300
    assert [f"{each.file}:{each.line}: {each.message}" for each in found if not each.cure] == []


@pytest.mark.slow
def test_errors_whose_text_is_all_that_is_told_are_collected() -> None:
    """Subclasses of `VivaceError` that have no parts of their own."""
    # What these say is made in their own class; the page has it under its own heading.
    known = {*FIELDS, "StoreError", "PortTaken", "PaperStuck"}
    assert "the port is taken" in PAGE.read_text(encoding="utf-8")
    bases = {"VivaceError", *(n for n, e in vars(errors).items() if isinstance(e, type))}
    missed: list[str] = []
    for path in sorted((ROOT / "orchestrator").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name not in known:
                above = {each.id for each in node.bases if isinstance(each, ast.Name)}
                missed += [node.name] if above & bases and path.name != "errors.py" else []
    assert missed == []
