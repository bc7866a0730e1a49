"""Windows whose days are those of a time zone: `SLIDE 1 DAY AT TIME ZONE 'Europe/Berlin'`.

Days of a time zone have 23, 24 or 25 hours, as clocks are set. Operators need lengths of time. So a
statement with such windows is compiled for times in which each day has 2²⁷ units, which is more
milliseconds than any day has: a timestamp is told as the number of its day and the milliseconds
since that began. It is a whole number that rises, and a range of n days is n · 2²⁷
(`streams.evaluate.local_days`). No other length of time has a meaning in the statement then, nor
has `_ts` a value there; a statement that reads its stream knows both again.
"""

from __future__ import annotations

from dataclasses import replace

from streams.expressions.time_zones import LocalDays, TimeZoneError, day_begins, rules
from streams.language.ast import Source, Statement, Window
from streams.language.errors import QueryError
from streams.language.walk import leaves_of, with_leaves
from streams.plan.program import DAY_BITS, Program
from streams.vectors.chunk import TIMESTAMP

DAY = 1 << DAY_BITS
DAY_MS = 86_400_000
LONGEST_MS = 2**45
"""Every timestamp is shorter, ms: until the year 3084."""


def days_of(statement: Statement) -> LocalDays | None:
    """The days of a statement's windows; None if they are of no time zone.

    Raises
    ------
    QueryError
        There is no such zone, windows have several, or something else in the statement has a
        length of time.
    """
    windows = [each.window for each in leaves_of(statement.body.selects) if each.window is not None]
    local = [each for each in windows if each.zone is not None]
    if not local:
        return None

    def error(at: Window, message: str) -> QueryError:
        return QueryError(statement.source, at.start, message)

    found = {_days(each) for each in local}
    if len(found) > 1:
        raise error(local[1], "the days of one statement have one time zone, and one OFFSET")
    for window in windows:
        if window.zone is None and (window.range_ms, window.session_ms) != (None, None):
            message = (
                "beside days of a time zone no window has another length: make a stream of this "
                "one in a statement of its own"
            )
            raise error(window, message)
    for window in local:
        if window.range_ms is None or window.rows is not None:
            raise error(window, "days of a time zone have a RANGE and no ROWS")
        if window.range_ms % DAY_MS or (window.slide_ms or 0) % DAY_MS:
            raise error(window, "with a time zone, RANGE and SLIDE are whole DAYS")
    if statement.body.real_time is not None:
        message = "releases have a period, and days of a time zone have none: leave RTSPEC out"
        raise error(local[0], message)
    (days,) = found
    try:
        day_begins(days)
    except TimeZoneError as failed:
        raise error(local[0], str(failed)) from None
    return days


def _days(window: Window) -> LocalDays:
    assert window.zone is not None
    return LocalDays(window.zone, window.offset_ms % DAY_MS)


def in_equal_days(statement: Statement) -> Statement:
    """A statement whose days have lengths of their own."""

    def change(source: Source) -> Source:
        window = source.window
        if window is None or window.zone is None:
            return source
        assert window.range_ms is not None
        assert window.slide_ms is not None
        lengths = {
            "range_ms": window.range_ms // DAY_MS << DAY_BITS,
            "slide_ms": window.slide_ms // DAY_MS << DAY_BITS,
            "offset_ms": window.offset_ms // DAY_MS << DAY_BITS,
        }
        return replace(source, window=replace(window, **lengths))

    selects = with_leaves(statement.body.selects, change)
    return replace(statement, body=replace(statement.body, selects=selects))


def with_days(program: Program, statement: Statement, days: LocalDays) -> Program:
    """A program that was compiled for equal days, with the days that they are.

    Raises
    ------
    QueryError
        It reads timestamps.
    """
    if any(TIMESTAMP in columns for columns in program.reads.values()):
        message = (
            f"beside days of a time zone {TIMESTAMP} cannot be read: select it as a column in a "
            "statement before this one"
        )
        raise QueryError(statement.source, statement.start, message)
    return replace(program, days=days, functions={**program.functions, **rules()})
