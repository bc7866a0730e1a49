from __future__ import annotations

import tempfile
from typing import NoReturn

import pytest

from orchestrator.control.observe.dataflow import InvalidQuery
from orchestrator.errors import InvalidInput, Refused, Unreachable, VivaceError, error_report


def test_a_bug_is_told_also_where_its_traceback_cannot_be_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(**_: object) -> NoReturn:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkstemp", full)
    told = error_report(ZeroDivisionError("oh"))
    assert told.message.endswith("its traceback is in no file (No space left on device)")
    assert told.exit_status == 1


def test_invalid_input_names_file_field_value_problem_and_remedy() -> None:
    error = InvalidInput("q.yaml:3", "Query q: deadline", "soon", "is not a duration", "Write 1 s.")
    assert str(error) == "q.yaml:3: Query q: deadline: 'soon' is not a duration. Write 1 s."
    assert isinstance(error, VivaceError)
    assert error.exit_status == 2


def test_missing_value_and_field_leave_no_gap() -> None:
    assert str(InvalidInput("q.yaml", "", None, "is not YAML", "")) == "q.yaml: is not YAML."


def test_no_full_stop_follows_the_caret_under_a_place_in_the_text() -> None:
    pointed = "line 1, column 1: no such word\n  XSTREAM\n  ^"
    assert str(InvalidInput("q.yaml", "statements", None, pointed, "")).endswith("  ^")
    assert str(InvalidQuery("q", "statements", None, pointed, "")).endswith("  ^")


def test_long_value_is_cut() -> None:
    assert len(str(InvalidInput("f", "g", "x" * 1000, "is long", "Cut it."))) < 150


def test_refusal_keeps_figures() -> None:
    error = Refused(
        "query q", "recovery", "5 ms", "the best is 9 ms", "Ask less.", {"best_ms": 9.0}
    )
    assert str(error) == "query q refused: recovery '5 ms': the best is 9 ms. Ask less."
    assert error.figures == {"best_ms": 9.0}


def test_unreachable_names_the_address_and_exits_with_three() -> None:
    error = Unreachable("ZooKeeper", "host:2181", "did not answer", "Start it.")
    assert str(error) == "ZooKeeper at host:2181 did not answer. Start it."
    assert error.exit_status == 3
