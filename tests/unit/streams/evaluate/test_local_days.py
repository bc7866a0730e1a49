"""Windows in days of a time zone."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from streams.evaluate.engine import EvaluationError, FragmentEngine
from streams.evaluate.local_days import EqualDays
from streams.expressions.time_zones import LocalDays
from streams.language import QueryError, parse
from streams.language.writer import written_window
from streams.plan.compiler import compile_statement
from tests.unit.streams.running import Row, chunk, output, program, run, sensor

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR_MS = 3_600_000
COUNTED = "RSTREAM(SELECT count(*) AS n FROM s [{}] HAVING count(*) > 0)"
BERLIN = "RANGE 1 DAY SLIDE 1 DAY AT TIME ZONE 'Europe/Berlin'"


def ms(text: str, zone: str) -> int:
    at = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))
    return (at - EPOCH) // timedelta(milliseconds=1)


def at(*times_ms: int) -> list[Row]:
    return [(each, "a", 1, 1.0, True) for each in times_ms]


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)]
)
def test_a_local_day_ends_at_midnight_whatever_clocks_do(day: str, hours: int) -> None:
    begins_ms = ms(day, "Europe/Berlin")
    hourly = at(*(begins_ms + hour * HOUR_MS + 1 for hour in range(-2, hours + 2)))
    rows = run(COUNTED.format(BERLIN), hourly, until_ms=begins_ms + 60 * HOUR_MS)
    ends_ms = begins_ms + hours * HOUR_MS
    assert rows[:2] == [(begins_ms, 2), (ends_ms, hours)]


def test_days_may_begin_at_another_hour_by_the_clock() -> None:
    window = "RANGE 1 DAY SLIDE 1 DAY OFFSET 6 HOURS AT TIME ZONE 'Europe/Berlin'"
    first, last = (ms(f"2026-03-{day} 06:00", "Europe/Berlin") for day in (28, 29))
    assert last - first == 23 * HOUR_MS
    rows = run(COUNTED.format(window), at(first, first + 1, last), until_ms=last + HOUR_MS)
    assert rows == [(first, 1), (last, 2)]


def test_weeks_are_counted_from_a_day() -> None:
    """1970-01-01 was a Thursday: weeks that end when Monday begins have an offset of four days."""
    window = "RANGE 7 DAYS SLIDE 7 DAYS OFFSET 4 DAYS AT TIME ZONE 'America/New_York'"
    begins, ends = (ms(day, "America/New_York") for day in ("2026-03-02", "2026-03-09"))
    assert ends - begins == 7 * 24 * HOUR_MS - HOUR_MS
    rows = run(COUNTED.format(window), at(begins, begins + 1, ends), until_ms=ends + HOUR_MS)
    assert rows == [(begins, 1), (ends, 2)]


def test_a_day_that_was_skipped_is_none() -> None:
    """Samoa went from the 29th to the 31st of December 2011."""
    window = "RANGE 2 DAYS SLIDE 1 DAY AT TIME ZONE 'Pacific/Apia'"
    ends_ms = ms("2011-12-31", "Pacific/Apia")
    rows = run(COUNTED.format(window), at(ends_ms - 30 * HOUR_MS), until_ms=ends_ms + HOUR_MS)
    assert rows == [(ends_ms - 24 * HOUR_MS, 1), (ends_ms, 1)]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe"])
def test_each_tuple_counts_for_its_local_date(zone: str) -> None:
    rng = np.random.default_rng(3)
    begins_ms = ms("2017-01-01", "UTC")
    times_ms = np.sort(begins_ms + rng.integers(0, 700 * 24 * HOUR_MS, 3000)).tolist()
    # A tuple at midnight belongs to the day before.
    dates = Counter(datetime.fromtimestamp((t - 1) / 1e3, ZoneInfo(zone)).date() for t in times_ms)
    text = COUNTED.format(f"RANGE 1 DAY SLIDE 1 DAY AT TIME ZONE '{zone}'")
    rows = run(text, at(*times_ms), until_ms=times_ms[-1] + 50 * HOUR_MS)
    found: dict[date, int] = {
        datetime.fromtimestamp((end_ms - 1) / 1e3, ZoneInfo(zone)).date(): n for end_ms, n in rows
    }
    assert found == dates


@pytest.mark.parametrize(
    "query",
    [
        "RSTREAM(SELECT k, sum(i) AS n, max(x) AS x FROM s [{}] GROUP BY k)",
        "ISTREAM(SELECT k, i FROM s [{}])",
        "DSTREAM(SELECT s.k, t.x FROM s [{}], t [ROWS 2] WHERE s.k = t.k)",
        "ISTREAM(SELECT s.k, t.x FROM s [{0}], t [{0}] WHERE s.k = t.k)",
        "RSTREAM(SELECT k, i FROM s [{0}] EXCEPT SELECT k, i FROM t [{0}])",
        "RSTREAM(SELECT k, i FROM s [{}] TOP 2 BY x)",
    ],
)
@pytest.mark.parametrize("length", ["RANGE 1 DAY SLIDE 1 DAY", "RANGE 3 DAYS SLIDE 2 DAYS"])
def test_without_changes_of_clocks_days_are_those_of_no_zone(query: str, length: str) -> None:
    rng = np.random.default_rng(7)
    inputs: list[list[Row]] = []
    for _ in "st":
        times_ms = np.sort(HOUR_MS * rng.integers(0, 24 * 9, 60)).tolist()
        inputs.append(
            [(t, str(rng.choice([*"abc"])), int(rng.integers(5)), 0.5, True) for t in times_ms]
        )
    plain, local = (query.format(each) for each in (length, f"{length} AT TIME ZONE 'UTC'"))
    until_ms = 24 * 20 * HOUR_MS
    assert run(local, *inputs, until_ms=until_ms) == run(plain, *inputs, until_ms=until_ms)


def test_a_state_is_taken_up_in_mid_day() -> None:
    made = program(COUNTED.format("RANGE 2 DAYS SLIDE 1 DAY AT TIME ZONE 'Europe/Berlin'"))
    begins_ms = ms("2026-10-24 12:00", "Europe/Berlin")
    rows = at(*(begins_ms + hour * HOUR_MS for hour in range(48)))
    whole = output(made, {"s": rows}, begins_ms + 96 * HOUR_MS)
    first, second = FragmentEngine(made), FragmentEngine(made)
    first.offer("s", chunk(sensor, rows[:20], [rows[19][0]]))
    found: list[Row] = []
    while (given := first.advance(3)) is not None:
        found += [tuple(row.values()) for row in given.rows.to_pylist()]
    second.restore(first.snapshot())
    second.offer("s", chunk(sensor, rows[20:], [rows[-1][0], begins_ms + 96 * HOUR_MS], 20))
    while (given := second.advance(3)) is not None:
        found += [tuple(row.values()) for row in given.rows.to_pylist()]
    assert found == whole


def test_times_rise_and_are_told_back() -> None:
    equal = EqualDays(LocalDays("Europe/Berlin", 6 * HOUR_MS))
    rng = np.random.default_rng(1)
    # From 1900 to 2200: days before and after those that are looked up have 24 hours.
    at_ms = np.unique(rng.integers(-70 * 365 * 86_400_000, 230 * 365 * 86_400_000, 20_000))
    times = equal.times(at_ms)
    assert (np.diff(times) > 0).all()
    assert (equal.milliseconds(times) == at_ms).all()


def test_reach_is_that_of_the_longest_days() -> None:
    made = program(COUNTED.format("RANGE 2 DAYS SLIDE 1 DAY AT TIME ZONE 'Europe/Berlin'"))
    assert made.bounded_reach_ms == made.lasts_ms == made.reach_ms == 3 * 26 * HOUR_MS
    assert set(made.functions) == {"time zones"}


def test_a_window_is_written_as_it_is_read() -> None:
    (statement,) = parse(f"REGISTER QUERY q {COUNTED.format(BERLIN)};")
    (source,) = statement.body.selects[0].sources
    assert source.window is not None
    assert written_window(source.window) == (
        "[RANGE 86400000 MILLISECONDS SLIDE 86400000 MILLISECONDS AT TIME ZONE 'Europe/Berlin']"
    )


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (COUNTED.format(BERLIN.replace("Berlin", "Berlim")), "no time zone Europe/Berlim"),
        (COUNTED.format(BERLIN.replace("Europe/Berlin", "../../etc/passwd")), "no time zone"),
        (COUNTED.format("RANGE 12 HOURS SLIDE 1 DAY AT TIME ZONE 'UTC'"), "whole DAYS"),
        (f"RSTREAM(SELECT s.k FROM s [{BERLIN}], t [NOW])", "no window has another length"),
        (
            f"RSTREAM(SELECT s.k FROM s [{BERLIN}], t [{BERLIN.replace('Berlin', 'Rome')}])",
            "one time zone",
        ),
        (f"RSTREAM(SELECT last(_ts) AS at FROM s [{BERLIN}])", "_ts cannot be read"),
        (f"{COUNTED.format(BERLIN)} RTSPEC PERIOD 1 SECOND", "leave RTSPEC out"),
    ],
)
def test_what_has_no_meaning_is_refused(query: str, told: str) -> None:
    with pytest.raises(QueryError, match=told):
        program(query)


def test_a_loop_has_none() -> None:
    text = f"REGISTER LOOP q OF q STEPS 9 ERROR (REGISTER QUERY q {COUNTED.format(BERLIN)}<NOW>);"
    (loop,) = parse(text)
    with pytest.raises(QueryError, match="a loop has no days of a time zone"):
        compile_statement(loop, {"s": sensor})


def test_timestamps_that_have_no_day_are_told() -> None:
    with pytest.raises(EvaluationError, match="no timestamps beyond"):
        run(COUNTED.format(BERLIN), at(2**60))
