"""What to write in place of functions that other systems have, for messages."""

from __future__ import annotations

from streams.vectors.chunk import TIMESTAMP

window_bounds = frozenset(
    {
        *("window_start", "window_end", "wstart", "wend", "_wstart", "_wend"),
        *("tumble_start", "tumble_end", "hop_start", "hop_end", "session_start", "session_end"),
    }
)
"""What other systems call the beginning and the end of a result's window."""

BOUNDS_OF_WINDOWS = (
    "the end of a window is the timestamp of its result, which a statement that reads the result "
    f"can select: SELECT {TIMESTAMP} AS ends, {TIMESTAMP} - 1000 AS begins FROM … [NOW]"
)

clocks = frozenset(
    {
        *("now", "current_timestamp", "current_time", "current_date", "localtimestamp", "sysdate"),
        *("getdate", "unix_timestamp", "proctime", "processing_time", "rowtime", "event_time"),
    }
)
"""What other systems call the time."""

TIME = (
    f"write {TIMESTAMP}, the timestamp of a tuple, in ms since 1970: a query knows no other time, "
    "so that it gives the same rows whenever it is evaluated"
)

QUANTIFIED = "write x > {} (SELECT …): it compares with the rows of a sub-query"

quantifiers = frozenset({"all", "any", "some"})
"""What stands before a sub-query; lists of values have `IN`, `least` and `greatest`."""

known_elsewhere = {
    **dict.fromkeys(("ifnull", "nvl", "isnull"), "coalesce(a, b)"),
    "mod": "a % b",
    "first_value": "first(a)",
    "last_value": "last(a)",
    "mean": "avg(a)",
    **dict.fromkeys(("stddev_samp", "std"), "stddev(a)"),
    **dict.fromkeys(("variance", "var_samp"), "power(stddev(a), 2)"),
    **dict.fromkeys(("len", "char_length", "character_length"), "length(a)"),
    "log": "ln(a)",
    **{f"log{base}": f"ln(a) / ln({base})" for base in (2, 10)},
    **dict.fromkeys(("trunc", "truncate"), "CAST(a AS int)"),
    "sign": "CASE WHEN a > 0 THEN 1 WHEN a < 0 THEN -1 ELSE 0 END",
    "tan": "sin(a) / cos(a)",
    "pi": "radians(180)",
    "average": "avg(a)",
    "btrim": "trim(a)",
    **dict.fromkeys(("countif", "count_if"), "count(CASE WHEN c THEN 1 END)"),
    **dict.fromkeys(
        ("date_trunc", "date_bin", "time_bucket"), f"{TIMESTAMP} - {TIMESTAMP} % 3600000"
    ),
    "if": "CASE WHEN c THEN a ELSE b END",
    "pow": "power(a, b)",
    "ceiling": "ceil(a)",
    **dict.fromkeys(("substr", "mid"), "substring(a, from, length)"),
    "approx_count_distinct": "count(DISTINCT a)",
}
"""Function of other systems → what to write."""
