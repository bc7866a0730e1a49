"""Names that streams have beside those of their columns: the one list of them.

Every tuple has a timestamp and a number. Sinks and sources add further columns for their readers,
such as the folders of a dataset of Parquet, by which readers take a part of it. A column of the
same name would be read in place of ours, or ours in place of it. Many readers, such as Spark and
DuckDB, take no notice of case; so names that differ in case only are the same here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

TIMESTAMP = "_ts"
"""Name of the timestamp column (int64, milliseconds), first in every chunk's rows."""

SEQUENCE = "_seq"
GENERATION = "_generation"

IN_STREAMS = {
    TIMESTAMP: "the timestamp of a tuple",
    SEQUENCE: "the number of a tuple",
    GENERATION: "what the number of a tuple is counted in",
}
"""In every stream."""

EVENT_TIME = "event_time"

IN_LATE_STREAMS = {EVENT_TIME: "the timestamp that a late tuple came with"}
"""In streams of late tuples, beside the columns of the stream that they came too late for."""

VERSION, DATE, HOUR = "vivace_version", "vivace_date", "vivace_hour"

IN_DATASETS = {
    VERSION: "the query that wrote a file",
    DATE: "the day of a file's tuples",
    HOUR: "the hour of a file's tuples",
}
"""In datasets of Parquet, as names of folders."""


def taken(name: str, reserved: Mapping[str, str] = IN_STREAMS) -> str | None:
    """Why a column cannot have a name, as a phrase that follows it; None: it can.

    >>> taken("_TS")
    'is reserved: _ts is the timestamp of a tuple'
    """
    ours = name.casefold()
    return f"is reserved: {ours} is {reserved[ours]}" if ours in reserved else None


def alike(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two names that differ in case only.

    >>> alike(["id", "at", "ID"])
    ('id', 'ID')
    """
    first: dict[str, str] = {}
    for name in names:
        if (other := first.setdefault(name.casefold(), name)) != name:
            return other, name
    return None
