"""Random statements over streams with the columns `key int, value int`, which they have too.

No window holds tuples for longer than it is told to, and a session ends where the tuples of its key
pause, so that the checks know when nothing depends any more on what was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from streams.language.ast import ToStream
from streams.plan.program import Program, WindowPlan

FIRST_FORMS = {"filter": 0.2, "join": 0.3, "sum": 0.25, "newest": 0.15, "union": 0.1}
"""The forms that there were first, and how often each is drawn: older seeds replay with these."""

FORMS: Mapping[str, str] = {
    "filter": "RSTREAM(SELECT key, value + 1 AS value FROM {one} [NOW] WHERE value >= {least})",
    "join": (
        "RSTREAM(SELECT l.key AS key, (l.value + 3 * r.value) % 101 AS value "
        "FROM {one} [NOW] AS l, {other} [RANGE {window_s} SECONDS] AS r "
        "WHERE l.key = r.key AND l.value > r.value)"
    ),
    "sum": (
        "ISTREAM(SELECT key, sum(value) % 97 AS value "
        "FROM {one} [RANGE {window_s} SECONDS] GROUP BY key)"
    ),
    "newest": (
        "ISTREAM(SELECT key, value FROM {one} [PARTITION BY key ROWS 2 RANGE {window_s} SECONDS])"
    ),
    "union": (
        "RSTREAM(SELECT key, value FROM {one} [NOW] UNION ALL SELECT key, value FROM {other} [NOW])"
    ),
    "session": (
        "RSTREAM(SELECT key, (sum(value) + 7 * count(*)) % 97 AS value "
        "FROM {one} [SESSION {gap_ms} MILLISECONDS PARTITION BY key] GROUP BY key)"
    ),
    "top": "ISTREAM(SELECT key, value FROM {one} [RANGE {window_s} SECONDS] TOP 2 BY value)",
    "top by key": (
        "DSTREAM(SELECT key, value FROM {one} [RANGE {window_s} SECONDS] "
        "TOP 1 BY value ASC PARTITION BY key)"
    ),
    "sliding": (
        "RSTREAM(SELECT key, (sum(value) + max(value)) % 97 AS value "
        "FROM {one} [RANGE {window_s} SECONDS SLIDE {slide_ms} MILLISECONDS] GROUP BY key)"
    ),
    "top groups": (
        "RSTREAM(SELECT key, last(value) + first(value) AS value "
        "FROM {one} [RANGE {window_s} SECONDS SLIDE {slide_ms} MILLISECONDS] GROUP BY key "
        "TOP 2 BY count(*))"
    ),
    "distinct": (
        "ISTREAM(SELECT DISTINCT key, value % 7 AS value FROM {one} [RANGE {window_s} SECONDS])"
    ),
    "count distinct": (
        "ISTREAM(SELECT key, count(DISTINCT value) + min(value) AS value "
        "FROM {one} [RANGE {window_s} SECONDS] GROUP BY key)"
    ),
    "tumbling join": (
        "RSTREAM(SELECT l.key AS key, (l.value + r.value) % 101 AS value "
        "FROM {one} [RANGE {slide_ms} MILLISECONDS SLIDE {slide_ms} MILLISECONDS] AS l, "
        "{other} [RANGE {slide_ms} MILLISECONDS SLIDE {slide_ms} MILLISECONDS] AS r "
        "WHERE l.key = r.key)"
    ),
    "newest join": (
        "ISTREAM(SELECT l.key AS key, l.value AS value "
        "FROM {one} [PARTITION BY key ROWS 1 RANGE {window_s} SECONDS] AS l, "
        "{other} [PARTITION BY key ROWS 1 RANGE {window_s} SECONDS] AS r "
        "WHERE l.key = r.key AND l.value < r.value)"
    ),
    "deviation": (
        "RSTREAM(SELECT key, CAST(coalesce(stddev(value) * 10, 0.0) AS int) AS value "
        "FROM {one} [RANGE {window_s} SECONDS] GROUP BY key)"
    ),
}
"""Statements of one or two streams, with a window of some seconds, and at most one more number."""

NUMBERS: Mapping[str, Callable[[np.random.Generator], object]] = {
    "least": lambda rng: rng.integers(10, 40),
    "slide_ms": lambda rng: rng.choice([100, 250, 500]),
    # Short for the rates of random streams: longer ones would make sessions that last for ever.
    "gap_ms": lambda rng: rng.choice([100, 150, 200]),
}
"""Draws the number of a form."""


PERIODS_MS = (250, 500)
"""Of periodic statements: shorter ones would show each tuple of a window dozens of times."""

MOST_FACTORS = 7
"""Tuples of the recordings that a tuple is made of, at most. Joins of joins of joins would make
hundreds of millions of a few tuples a second, as would groups of groups of groups."""

SHOWN_AGAIN = 3
"""As how many tuples one counts that is shown at every timestamp while it is in a window."""


def factors_of(program: Program, factors: Mapping[str, int]) -> int:
    """Tuples of recordings that a tuple of a program is made of, from those of its inputs.

    Where a whole relation is shown at every timestamp, each counts several times.
    """
    made = 0
    periodic = program.releases is not None
    if program.loop is not None:
        # Some of a loop's tuples come back to it, and once more.
        return SHOWN_AGAIN * max(factors[each] for each in program.inputs)
    if program.relations:
        again = periodic or (
            program.to_stream is ToStream.RSTREAM and any(map(_lasts, program.windows))
        )
        factor = sum(factors[each.stream] for each in program.windows)
        return factor * SHOWN_AGAIN if again else factor
    for select in program.selects:
        windows = [program.windows[source.window] for source in select.sources]
        again = periodic or (
            program.to_stream is ToStream.RSTREAM and all(_lasts(each) for each in windows)
        )
        factor = sum(factors[each.stream] for each in windows)
        made = max(made, factor * SHOWN_AGAIN if again else factor)
    return made


def _lasts(window: WindowPlan) -> bool:
    """Whether rows stay in a window while other timestamps come, and show at each of these."""
    now = window.range_ms == 1
    return not now and window.slide_ms is None and window.session_ms is None


def random_statement(
    rng: np.random.Generator,
    name: str,
    factors: Mapping[str, int],
    longest_s: int,
    *,
    first_forms: bool = False,
) -> str:
    """A statement that reads one or two known streams, the newest more often.

    Parameters
    ----------
    factors
        Known stream → tuples of the recordings that a tuple of it is made of.
    longest_s
        Of its windows.
    first_forms
        Whether to draw from `FIRST_FORMS` only.
    """
    known = [*factors]
    weights = np.arange(1, len(known) + 1, dtype=np.float64)
    one, other = (str(rng.choice(known, p=weights / weights.sum())) for _ in range(2))
    window_s = int(rng.integers(1, longest_s + 1))
    if first_forms or rng.random() < 0.5:
        form = str(rng.choice([*FIRST_FORMS], p=[*FIRST_FORMS.values()]))
    else:
        form = str(rng.choice([each for each in FORMS if each not in FIRST_FORMS]))
    if form == "union" and one == other:
        other = known[0] if one != known[0] else known[-1]
    if is_join(form):
        made_of = factors[one] + factors[other]
    else:
        made_of = factors[one] * (SHOWN_AGAIN if form == "deviation" else 1)
    if made_of > MOST_FACTORS and not first_forms:
        form = "filter"
    return f"REGISTER QUERY {name} {stated(rng, form, one, other, window_s)};"


def periodic(rng: np.random.Generator, statement: str) -> str:
    """A statement, or the periodic one that shows the same relation; sessions have none."""
    period_ms, at = int(rng.choice(PERIODS_MS)), statement.index("(")
    offset_ms = int(rng.integers(period_ms))
    if rng.random() < 0.75 or "SESSION" in statement:
        return statement
    name = statement[:at].split()[2]
    relation = statement[at:].removesuffix(";")
    clause = f"PERIOD {period_ms} MILLISECONDS OFFSET {offset_ms} MILLISECONDS"
    return f"REGISTER QUERY {name} RSTREAM{relation} RTSPEC {clause};"


def is_join(form: str) -> bool:
    """Whether a tuple of a form is made of one of either stream."""
    return " AS r " in FORMS[form]


def stated(rng: np.random.Generator, form: str, one: str, other: str, window_s: int) -> str:
    """A form with its streams and numbers."""
    text = FORMS[form]
    numbers = {name: draw(rng) for name, draw in NUMBERS.items() if f"{{{name}}}" in text}
    return text.format(one=one, other=other, window_s=window_s, **numbers)
