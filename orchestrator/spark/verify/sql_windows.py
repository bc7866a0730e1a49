"""Windows of the query language in Spark SQL: when a tuple is in them, and slices of time."""

from __future__ import annotations

from orchestrator.spark.verify.sql_expressions import Inexpressible, column_sql, quoted
from streams.language.ast import Source, Window
from streams.vectors.chunk import TIMESTAMP


def view_name(stream: str) -> str:
    """The view with a stream's tuples, in SQL: `_ts`, `_ord` and its columns."""
    return quoted(stream)


def windowed_sql(source: Source, *, ordered: bool, end_ms: int) -> str:
    """A query of a stream's tuples with the times at which they are in a window.

    Parameters
    ----------
    source
        The stream and its window.
    ordered
        Whether its tuples have an order within a timestamp.
    end_ms
        The timestamp after the last one of interest.
    """
    window = checked(source)
    order = f"{TIMESTAMP}, _ord"
    since, until = TIMESTAMP, str(end_ms)
    if window.rows is not None:
        if window.slide_rows is not None:
            raise Inexpressible("windows that change at every so many tuples are not translated")
        if not ordered:
            raise Inexpressible(
                f"the tuples of {source.stream} have no order within a timestamp in SQL, and a "
                "window counts them"
            )
        keys = ", ".join(column_sql(each.name) for each in window.partition_by)
        partition = f"PARTITION BY {keys} " if keys else ""
        following = f"lead({TIMESTAMP}, {window.rows}) OVER ({partition}ORDER BY {order})"
        until = f"coalesce({following}, {end_ms})"
        if window.range_ms is not None:
            until = f"least({until}, {TIMESTAMP} + {window.range_ms})"
    elif window.slide_ms is not None:
        slide_ms, offset_ms = window.slide_ms, window.offset_ms
        end = f"({TIMESTAMP} + {window.range_ms})"
        since = f"{TIMESTAMP} + pmod({offset_ms} - {TIMESTAMP}, {slide_ms})"
        until = f"{end} + pmod({offset_ms} - {end}, {slide_ms})"
    elif window.range_ms is not None:
        until = f"{TIMESTAMP} + {window.range_ms}"
    return (
        f"SELECT * FROM (SELECT *, {since} AS _since, {until} AS _until "
        f"FROM {view_name(source.stream)}) WHERE _since < _until"
    )


def checked(source: Source) -> Window:
    """The window of a source, if it can be translated."""
    assert source.window is not None
    if source.window.session_ms is not None:
        raise Inexpressible("sessions are not translated")
    return source.window


def window_of(source: Source) -> tuple[int | None, int | None, int | None, int | None]:
    """Its rows, range, slide and session."""
    one = checked(source)
    return one.rows, one.range_ms, one.slide_ms, one.session_ms


def span_ms(window: Window) -> int | None:
    """How long a tuple is in a window at most; None: for ever."""
    return None if window.range_ms is None else window.range_ms + (window.slide_ms or 0)


def slice_sql(at: str, length_ms: int) -> str:
    """The slice of time that a timestamp is in."""
    return f"(({at}) - pmod({at}, {length_ms})) div {length_ms}"


def sliced_sql(table: str, length_ms: int) -> str:
    """The rows of a table in each slice of time that they touch."""
    first, last = slice_sql("_since", length_ms), slice_sql("_until - 1", length_ms)
    return f"SELECT *, explode(sequence({first}, {last})) AS _slice FROM {table}"
