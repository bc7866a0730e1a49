"""Patterns of timestamps that Arrow reads, for Python, which checks their days."""

from __future__ import annotations

import pytest

from orchestrator.edges.sources.formats.formats import parse
from orchestrator.edges.sources.formats.row_form import Format, RowForm, Unreadable
from orchestrator.edges.sources.formats.time_patterns import for_python


def test_what_python_does_not_know_is_written_out() -> None:
    assert for_python("%F%t%R %%F") == "%Y-%m-%d %H:%M %%F"


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        *[(f"%Y %{each}", f"has %{each}, by which") for each in "CGUVWZEjsuw"],
        ("%H:%M", "names no year"),
        ("%Y %", "ends with a %"),
    ],
)
def test_a_pattern_of_which_nothing_exact_is_read_is_refused(pattern: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        for_python(pattern)
    form = RowForm(columns={"k": "int"}, time_column="at", time_format=pattern)
    with pytest.raises(Unreadable, match=problem):
        parse(form, Format.CSV, b"at,k\n2026,1\n")
