"""Random statements over streams with the columns `key int, value int`, which they have too.

No window holds tuples for longer than it is told to, or a session for longer than a few of its
gaps, so that the checks know when nothing depends any more on what was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

FIRST_FORMS = {"filter": 0.2, "join": 0.3, "sum": 0.25, "newest": 0.15, "union": 0.1}
"""The forms that there were first, and how often each is drawn: older seeds replay with these."""

SLIDES_MS = (100, 250, 500)
GAPS_MS = (100, 150, 200)
"""Short for the rates of random streams: longer ones would make sessions that last for ever."""


def _filter(rng: np.random.Generator, one: str, other: str, window_s: int) -> str:
    least = int(rng.integers(10, 40))
    return f"RSTREAM(SELECT key, value + 1 AS value FROM {one} [NOW] WHERE value >= {least})"


def _join(rng: np.random.Generator, one: str, other: str, window_s: int) -> str:
    return (
        "RSTREAM(SELECT l.key AS key, (l.value + 3 * r.value) % 101 AS value "
        f"FROM {one} [NOW] AS l, {other} [RANGE {window_s} SECONDS] AS r "
        "WHERE l.key = r.key AND l.value > r.value)"
    )


def _sum(rng: np.random.Generator, one: str, other: str, window_s: int) -> str:
    return (
        "ISTREAM(SELECT key, sum(value) % 97 AS value "
        f"FROM {one} [RANGE {window_s} SECONDS] GROUP BY key)"
    )


def _newest(rng: np.random.Generator, one: str, other: str, window_s: int) -> str:
    return (
        f"ISTREAM(SELECT key, value FROM {one} [PARTITION BY key ROWS 2 RANGE {window_s} SECONDS])"
    )


def _union(rng: np.random.Generator, one: str, other: str, window_s: int) -> str:
    both = (f"SELECT key, value FROM {each} [NOW]" for each in (one, other))
    return f"RSTREAM({' UNION ALL '.join(both)})"


def _session(rng: np.random.Generator, one: str, other: str, window_s: int) -> str:
    gap_ms = int(rng.choice(GAPS_MS))
    return (
        "RSTREAM(SELECT key, (sum(value) + 7 * count(*)) % 97 AS value "
        f"FROM {one} [SESSION {gap_ms} MILLISECONDS PARTITION BY key] GROUP BY key)"
    )


def _top(rng: np.random.Generator, one: str, other: str, window_s: int) -> str:
    return f"ISTREAM(SELECT key, value FROM {one} [RANGE {window_s} SECONDS] TOP 2 BY value)"


def _top_by_key(rng: np.random.Generator, one: str, other: str, window_s: int) -> str:
    return (
        f"DSTREAM(SELECT key, value FROM {one} [RANGE {window_s} SECONDS] "
        "TOP 1 BY value ASC PARTITION BY key)"
    )


def _sliding(rng: np.random.Generator, one: str, other: str, window_s: int) -> str:
    return (
        "RSTREAM(SELECT key, (sum(value) + max(value)) % 97 AS value FROM "
        f"{one} [RANGE {window_s} SECONDS SLIDE {_slide_ms(rng)} MILLISECONDS] GROUP BY key)"
    )


def _top_groups(rng: np.random.Generator, one: str, other: str, window_s: int) -> str:
    return (
        "RSTREAM(SELECT key, last(value) + first(value) AS value FROM "
        f"{one} [RANGE {window_s} SECONDS SLIDE {_slide_ms(rng)} MILLISECONDS] GROUP BY key "
        "TOP 2 BY count(*))"
    )


def _distinct(rng: np.random.Generator, one: str, other: str, window_s: int) -> str:
    return f"ISTREAM(SELECT DISTINCT key, value % 7 AS value FROM {one} [RANGE {window_s} SECONDS])"


def _count_distinct(rng: np.random.Generator, one: str, other: str, window_s: int) -> str:
    return (
        "ISTREAM(SELECT key, count(DISTINCT value) + min(value) AS value "
        f"FROM {one} [RANGE {window_s} SECONDS] GROUP BY key)"
    )


def _tumbling_join(rng: np.random.Generator, one: str, other: str, window_s: int) -> str:
    slide_ms = _slide_ms(rng)
    window = f"[RANGE {slide_ms} MILLISECONDS SLIDE {slide_ms} MILLISECONDS]"
    return (
        "RSTREAM(SELECT l.key AS key, (l.value + r.value) % 101 AS value "
        f"FROM {one} {window} AS l, {other} {window} AS r WHERE l.key = r.key)"
    )


def _newest_join(rng: np.random.Generator, one: str, other: str, window_s: int) -> str:
    newest = f"[PARTITION BY key ROWS 1 RANGE {window_s} SECONDS]"
    return (
        f"ISTREAM(SELECT l.key AS key, l.value AS value FROM {one} {newest} AS l, "
        f"{other} {newest} AS r WHERE l.key = r.key AND l.value < r.value)"
    )


def _deviation(rng: np.random.Generator, one: str, other: str, window_s: int) -> str:
    return (
        "RSTREAM(SELECT key, CAST(coalesce(stddev(value) * 10, 0.0) AS int) AS value "
        f"FROM {one} [RANGE {window_s} SECONDS] GROUP BY key)"
    )


Form = Callable[[np.random.Generator, str, str, int], str]

FORMS: Mapping[str, Form] = {
    "filter": _filter,
    "join": _join,
    "sum": _sum,
    "newest": _newest,
    "union": _union,
    "session": _session,
    "top": _top,
    "top by key": _top_by_key,
    "sliding": _sliding,
    "top groups": _top_groups,
    "distinct": _distinct,
    "count distinct": _count_distinct,
    "tumbling join": _tumbling_join,
    "newest join": _newest_join,
    "deviation": _deviation,
}
"""Makes a statement from one or two streams and the length of its window, s."""


def random_statement(
    rng: np.random.Generator,
    name: str,
    known: Sequence[str],
    longest_s: int,
    *,
    first_forms: bool = False,
) -> str:
    """A statement that reads one or two known streams, the newest more often.

    Parameters
    ----------
    longest_s
        Of its windows.
    first_forms
        Whether to draw from `FIRST_FORMS` only.
    """
    weights = np.arange(1, len(known) + 1, dtype=np.float64)
    one, other = (str(rng.choice(known, p=weights / weights.sum())) for _ in range(2))
    window_s = int(rng.integers(1, longest_s + 1))
    if first_forms or rng.random() < 0.5:
        form = str(rng.choice([*FIRST_FORMS], p=[*FIRST_FORMS.values()]))
    else:
        form = str(rng.choice([each for each in FORMS if each not in FIRST_FORMS]))
    if form == "union" and one == other:
        other = known[0] if one != known[0] else known[-1]
    return f"REGISTER QUERY {name} {FORMS[form](rng, one, other, window_s)};"


def _slide_ms(rng: np.random.Generator) -> int:
    return int(rng.choice(SLIDES_MS))
