"""Tuples that a statement left out because it fails on them: what is told of them, and counted.

See `streams.evaluate.skipping`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from foundation.timestamps import timestamp_text
from streams.evaluate.rejected_count import RejectedCount
from streams.vectors.chunk import NO_WATERMARK
from streams.vectors.state import Pieces, SnapshotError, State

SHOWN_CHARS = 1000
"""Of the tuples that are rejected, in a message …"""

SHOWN_ERROR_CHARS = 300
"""… and of the error: it may quote a text of any length."""

SHOWN_ROWS = 20


@dataclass(frozen=True, slots=True)
class Rejected:
    """Tuples of one timestamp that were left out, because the statement fails on them.

    Attributes
    ----------
    timestamp_ms
        Their event timestamp; without tuples, the last one before.
    tuples
        Input → its tuples, with the columns that the statement uses.
    error
        What was raised when they were there.
    state
        Whether all that windows held was left out, too.
    """

    timestamp_ms: int
    tuples: Mapping[str, pa.RecordBatch]
    error: Exception
    state: bool = False

    @property
    def count(self) -> int:
        """How many tuples they are."""
        return sum(rows.num_rows for rows in self.tuples.values())

    @property
    def reason(self) -> str:
        """The error, shortened."""
        return said(self.error)

    def __str__(self) -> str:
        blamed = [
            f"{rows.num_rows} of {stream}: {shown(rows)}" for stream, rows in self.tuples.items()
        ]
        blamed += ["all that its windows held"] if self.state else []
        when = f"{'at' if self.tuples else 'after'} {timestamp_text(self.timestamp_ms)}"
        return f"{when}, {self.reason}; tuples {', '.join(blamed)}"


class RejectedCounter:
    """Counts what is rejected. It is part of the state, so that every replica counts alike.

    Attributes
    ----------
    count
        So far.
    last_ms
        The last event timestamp that had tuples.
    until_ms
        The watermark up to which all is evaluated.
    """

    def __init__(self) -> None:
        self.count = RejectedCount()
        self.last_ms = self.until_ms = NO_WATERMARK

    def add(self, rejected: Rejected) -> None:
        """Count some more."""
        self.count = RejectedCount(
            tuples=self.count.tuples + rejected.count,
            groups=self.count.groups + 1,
            states=self.count.states + rejected.state,
            last=str(rejected),
        )

    def held(self) -> int:
        """See `Stateful`."""
        return 1

    def save(self) -> Pieces:
        """See `Stateful`."""
        values = {
            "count": msgspec.to_builtins(self.count),
            "last_ms": self.last_ms,
            "until_ms": self.until_ms,
        }
        return lambda: iter([State(values=values)])

    def load(self, state: State) -> None:
        """See `Stateful`."""
        try:
            self.count = msgspec.convert(state.values["count"], RejectedCount)
            self.last_ms = int(state.values["last_ms"])
            # Snapshots of before have none: no later than that was evaluated for certain.
            self.until_ms = int(state.values.get("until_ms", self.last_ms))
        except (msgspec.ValidationError, KeyError, TypeError) as error:
            raise SnapshotError(f"no count of rejected tuples: {error}") from None

    def loaded(self) -> None:
        """See `Stateful`."""


def said(error: Exception) -> str:
    """An error in a message, shortened."""
    text = f"{type(error).__name__}: {error}"
    return text if len(text) <= SHOWN_ERROR_CHARS else text[:SHOWN_ERROR_CHARS] + " …"


def shown(rows: pa.RecordBatch) -> str:
    """The first of some tuples as JSON, shortened."""
    text = msgspec.json.encode(rows.slice(0, SHOWN_ROWS).to_pylist()).decode()
    is_whole = len(text) <= SHOWN_CHARS and rows.num_rows <= SHOWN_ROWS
    return text if is_whole else text[:SHOWN_CHARS] + " …"


def shown_apart(rows: pa.RecordBatch) -> list[str]:
    """Each tuple as JSON, its beginning."""
    return [msgspec.json.encode(row).decode()[:SHOWN_CHARS] for row in rows.to_pylist()]
