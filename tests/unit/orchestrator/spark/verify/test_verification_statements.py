"""Cutting an SQL script into statements."""

from __future__ import annotations

import pytest

from orchestrator.spark.verify.verification import statements


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", []),
        (" ;; \n", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
        ("SELECT 1 -- one; it's\n + 1; -- the end", ["SELECT 1  \n + 1"]),
        ("/* a;\nb */ SELECT 1", ["SELECT 1"]),
        ("SELECT 1 - 2 / 3", ["SELECT 1 - 2 / 3"]),
        ("SELECT ';--', \"/*;\", `;`; SELECT 2", ["SELECT ';--', \"/*;\", `;`", "SELECT 2"]),
        (r"SELECT 'it\';s'; SELECT 2", [r"SELECT 'it\';s'", "SELECT 2"]),
        ("SELECT 'unclosed; it", ["SELECT 'unclosed", "it"]),
    ],
)
def test_statements(script: str, expected: list[str]) -> None:
    assert list(statements(script)) == expected
