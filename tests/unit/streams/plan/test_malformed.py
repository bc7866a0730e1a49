"""What is said of statements that are wrong: the place, the mistake, and the remedy.

`malformed.txt` has each statement and below it the message. `pytest
tests/unit/streams/plan/test_malformed.py --refresh-golden` writes the messages anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.language import QueryError, parse
from streams.plan.compiler import compile_statement
from tests.unit.streams.running import catalogue

GOLDEN = Path(__file__).parent / "malformed.txt"


def _compile(text: str) -> None:
    for statement in parse(text):
        compile_statement(statement, catalogue)


def _said(text: str) -> str:
    """The first line of the message; where it points is drawn below it."""
    with pytest.raises(QueryError) as refused:
        _compile(text)
    message, drawn, arrow = str(refused.value).split("\n")
    line, column, _ = message.replace(":", ",").split(",", 2)
    assert (line, column) == ("line 1", f" column {arrow.index('^') - 1}")
    assert drawn.strip() == text.strip()
    return message


def test_every_wrong_statement_is_told_where_and_why(pytestconfig: pytest.Config) -> None:
    lines = GOLDEN.read_text("utf-8").splitlines()
    statements = [line for line in lines if line and not line.startswith("  ")]
    assert len(statements) > 50
    told = "\n".join(f"{text}\n  {_said(text)}" for text in statements) + "\n"
    if pytestconfig.getoption("--refresh-golden"):
        GOLDEN.write_text(told, "utf-8")
    assert GOLDEN.read_text("utf-8") == told
