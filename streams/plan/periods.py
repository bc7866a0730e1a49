"""Periodic statements: windows that change at releases only.

A periodic statement shows its relation at its *releases* b_i = o + i·p, with what every window
holds there (RTSPEC of *Pushdown aggregates*, Fig. 1). In the paper a thread wakes up by the clock
and reads the windows as they are. Two replicas would read different windows, so here event time
decides what a release shows, and processing time whether it was in time.

At a release, `[RANGE r]` holds the same as `[RANGE r SLIDE p OFFSET o]`. So windows with a range
get the period as their slide, if they may, and what evaluates windows that slide, such as panes,
evaluates the statement. Other windows change at any time, and stepwise evaluation shows them at
releases (`streams.operators.releases`).
"""

from __future__ import annotations

from dataclasses import replace

from streams.language.ast import RealTime, Source, Statement
from streams.language.errors import QueryError
from streams.language.walk import leaves_of, with_leaves

MOST_SLIDES = 100_000
"""Most boundaries within a window's range: at each of them the statement is evaluated."""


def sliding(statement: Statement) -> Statement:
    """A statement whose windows with a range slide by its period; others remain as they are.

    Raises
    ------
    QueryError
        A window of a periodic statement has sessions.
    """
    real_time = statement.body.real_time
    if real_time is None:
        return statement
    for source in leaves_of(statement.body.selects):
        if source.window is not None and source.window.session_ms is not None:
            message = (
                "sessions show when they end, not at releases: make a stream of them, and let the "
                "periodic statement read that"
            )
            raise QueryError(statement.source, source.window.start, message)

    def change(source: Source) -> Source:
        return _slid(source, real_time)

    selects = with_leaves(statement.body.selects, change)
    return replace(statement, body=replace(statement.body, selects=selects))


def _slid(source: Source, real_time: RealTime) -> Source:
    window = source.window
    if window is None or window.range_ms is None:
        return source
    if window.slide_ms is not None or window.rows is not None:
        return source
    if window.range_ms > MOST_SLIDES * real_time.period_ms:
        return source
    window = replace(window, slide_ms=real_time.period_ms, offset_ms=real_time.offset_ms, now=False)
    return replace(source, window=window)
