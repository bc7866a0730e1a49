"""What is said of tuples on which a statement fails, and what is left out on demand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from streams.evaluate.engine import Evaluated, EvaluationError, FragmentEngine
from streams.evaluate.rejected import SHOWN_CHARS
from streams.evaluate.stateless import Stateless
from streams.vectors.state import SnapshotError
from tests.fragile import FATAL, fragile_function
from tests.unit.streams.running import Row, chunk, program, sensor

STATELESS = "RSTREAM(SELECT k, fragile(i) AS i FROM s [NOW])"
UNION = "RSTREAM(SELECT fragile(i) AS i FROM s [NOW] UNION ALL SELECT fragile(i) AS i FROM t [NOW])"
TUMBLING = (
    "RSTREAM(SELECT fragile(max(i)) AS m FROM s [RANGE 10 MILLISECONDS SLIDE 10 MILLISECONDS])"
)


@pytest.fixture(autouse=True)
def _fragile() -> Iterator[None]:
    with fragile_function():
        yield


def row(timestamp: int, value: int, key: str = "a") -> Row:
    return (timestamp, key, value, 0.5, True)


def engine(statement: str, *, skips: bool = False, **inputs: list[Row]) -> FragmentEngine:
    made = FragmentEngine(replace(program(statement), skips=skips))
    for stream, rows in inputs.items():
        watermarks_ms = sorted({each[0] for each in rows} | {30})
        made.offer(stream, chunk(sensor, rows, watermarks_ms))
    return made


def advanced(made: FragmentEngine) -> Evaluated:
    evaluated = made.advance(100)
    assert evaluated is not None
    return evaluated


def test_an_error_tells_timestamp_input_and_tuples() -> None:
    failing = engine(STATELESS, s=[row(1, 2), row(5, FATAL, "b"), row(5, 3), row(7, FATAL)])
    with pytest.raises(EvaluationError) as raised:
        failing.advance(100)
    assert str(raised.value) == (
        "q cannot be evaluated at 1970-01-01T00:00:00.005Z, FragileError: 13 is unlucky; "
        "tuples 2 of s: "
        '[{"_ts":5,"k":"b","i":13},{"_ts":5,"k":"a","i":3}]'
    )


def test_an_error_that_comes_from_a_state_tells_which_tuples_were_evaluated() -> None:
    failing = engine(TUMBLING, s=[row(1, FATAL)])
    with pytest.raises(
        EvaluationError, match=r"after .*00\.001Z, FragileError.*all that its windows"
    ):
        failing.advance(100)
    # Of a state from before nothing is known.
    failing = engine(TUMBLING, s=[row(1, FATAL), row(3, 4), row(12, 4)])
    failing.advance(2)
    with pytest.raises(EvaluationError, match=r"up to .*00\.030Z, FragileError.*; tuples 1 of s"):
        failing.advance(100)


def test_a_message_is_short_whatever_the_tuples() -> None:
    failing = engine(STATELESS, s=[row(1, FATAL, "x" * 100_000)])
    with pytest.raises(EvaluationError) as raised:
        failing.advance(100)
    assert len(str(raised.value)) < SHOWN_CHARS + 500


def test_the_first_input_whose_absence_helps_is_left_out() -> None:
    skipping = engine(UNION, skips=True, s=[row(5, 1)], t=[row(5, FATAL), row(6, 2)])
    evaluated = advanced(skipping)
    assert evaluated.rows.to_pydict() == {"_ts": [5, 6], "i": [1, 2]}
    (rejected,) = evaluated.rejected
    assert (rejected.timestamp_ms, list(rejected.tuples), rejected.state) == (5, ["t"], False)
    assert evaluated.tuples_in == 3


def test_all_of_a_group_is_left_out_if_no_input_alone_is_to_blame() -> None:
    skipping = engine(UNION, skips=True, s=[row(5, FATAL)], t=[row(5, FATAL), row(6, 2)])
    evaluated = advanced(skipping)
    assert evaluated.rows.to_pydict() == {"_ts": [6], "i": [2]}
    (rejected,) = evaluated.rejected
    assert (rejected.timestamp_ms, list(rejected.tuples), rejected.count) == (5, ["s", "t"], 2)


def test_what_windows_hold_is_left_out_if_they_fail_later() -> None:
    skipping = engine(TUMBLING, skips=True, s=[row(1, FATAL), row(3, 4), row(12, 5)])
    evaluated = advanced(skipping)
    assert evaluated.rows.to_pydict() == {"_ts": [20, 30], "m": [5, None]}
    (rejected,) = evaluated.rejected
    assert (rejected.timestamp_ms, rejected.count, rejected.state) == (3, 0, True)
    count = skipping.rejected_count
    assert count is not None
    assert (count.tuples, count.groups, count.states) == (0, 1, 1)
    assert count.last == str(rejected)


def test_releases_are_counted_from_the_first_tuple_although_the_state_begins_anew() -> None:
    limits = "RTSPEC ETIME 25 MILLISECONDS PERIOD 10 MILLISECONDS"
    text = f"RSTREAM(SELECT fragile(max(i)) AS m FROM s [RANGE 10 MILLISECONDS]) {limits}"
    skipping = engine(text, skips=True, s=[row(1, FATAL), row(3, 4), row(12, 5), row(28, 6)])
    evaluated = advanced(skipping)
    assert [each.state for each in evaluated.rejected] == [True]
    assert evaluated.rows.to_pydict() == {"_ts": [20], "m": [5]}


def test_windows_that_ended_before_one_that_fails_have_their_results() -> None:
    window = "RANGE 10 MILLISECONDS SLIDE 5 MILLISECONDS"
    hopping = f"RSTREAM(SELECT fragile(sum(i)) AS n FROM s [{window}])"
    skipping = engine(hopping, skips=True, s=[row(3, 6), row(8, FATAL)])
    skipping.advance(2)
    # The first one ends at 10 ms, the one that fails at 15 ms.
    assert advanced(skipping).rows.to_pylist()[:1] == [{"_ts": 10, "n": 6 + FATAL}]


@pytest.mark.parametrize("error", [MemoryError("full"), OSError("gone"), RecursionError("deep")])
def test_what_is_no_fault_of_data_rejects_nothing(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Also if it does not happen again: the peer replica may have had no such trouble."""
    skipping = engine(STATELESS, skips=True, s=[row(1, 2)])
    run, failures = Stateless.run, [error]

    def fail_once(*given: Any) -> Any:
        if failures:
            raise failures.pop()
        return run(*given)

    monkeypatch.setattr(Stateless, "run", fail_once)
    with pytest.raises(EvaluationError, match=type(error).__name__):
        skipping.advance(100)


def test_a_statement_that_fails_without_tuples_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    skipping = engine(STATELESS, skips=True, s=[row(1, 2)])

    def fail(*_: object) -> None:
        raise ValueError("always")

    monkeypatch.setattr(Stateless, "run", fail)
    with pytest.raises(
        EvaluationError, match=r"up to .*00\.030Z, ValueError: always; tuples 1 of s"
    ):
        skipping.advance(100)


def test_a_snapshot_tells_what_was_rejected_and_belongs_to_a_statement_that_skips() -> None:
    skipping = engine(STATELESS, skips=True, s=[row(1, FATAL), row(5, FATAL)])
    skipping.advance(100)
    saved, other = skipping.snapshot(), engine(STATELESS, skips=True)
    other.restore(saved)
    assert other.rejected_count == skipping.rejected_count
    with pytest.raises(SnapshotError):
        engine(STATELESS).restore(saved)


def test_without_skipping_nothing_is_counted() -> None:
    assert engine(STATELESS).rejected_count is None
