"""What did not enter a live stream: counted by reason, and kept for people to look at.

The latest rejections are lines of JSON in the site's folder, `<stream>.rejected.jsonl`, with the
time, the reason and the beginning of what was refused. The file is bounded: when it is full, it
becomes `<stream>.rejected.1.jsonl`, in place of the one before.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from orchestrator.edges.sources.formats.row_form import Ignored
from orchestrator.folders import PRIVATE, path_part
from orchestrator.records import InputStatus

FILE_BYTES = 2**20
"""Of a file of rejections; there are two at most."""

SHOWN_BYTES = 200
"""Of a refused line."""

WRITTEN_A_SECOND = 100
"""Rejections that are written down; all are counted."""


TOLD_BYTES = 1000
"""Of a refused line, for a stream of rejections."""


def _nobody_told(_kind: str, _reason: str, _what: str) -> None:
    pass


class RejectedInput:
    """The rejections of one stream, from any thread.

    Parameters
    ----------
    stream
        Its name.
    folder
        Where they are written down; None: nowhere.
    clock_us
        The cluster's clock.
    note
        Told the kind, the reason and the beginning of what could not be read.
    """

    def __init__(
        self,
        stream: str,
        folder: Path | None,
        clock_us: Callable[[], int],
        note: Callable[[str, str, str], None] = _nobody_told,
    ) -> None:
        self._told = note
        self._file = None if folder is None else folder / f"{path_part(stream)}.rejected.jsonl"
        self._clock_us = clock_us
        self._lock = threading.Lock()
        self._second = self._written = 0
        self._status = InputStatus()

    @property
    def status(self) -> InputStatus:
        """The counts, and the last reason."""
        with self._lock:
            return self._status

    def malformed(self, what: bytes, reason: str) -> None:
        """Count something that could not be read."""
        self._note("malformed", 1, reason, what)
        self._told("malformed", reason, what[:TOLD_BYTES].decode("utf-8", "replace"))

    def count(self, late: int, ahead: int, repeated: bool) -> None:
        """Count tuples that came too late or lay too far ahead, and batches that came again."""
        if late:
            self._note("late", late, f"{late} tuples came after their timestamp was complete")
        if ahead:
            self._note("ahead", ahead, f"{ahead} tuples lie further ahead than maxAhead allows")
        if repeated:
            with self._lock:
                status = self._status
                self._status = msgspec.structs.replace(status, repeated=status.repeated + 1)

    def ignored(self, left_out: Ignored) -> None:
        """Count tuples that had fields which the stream does not have."""
        with self._lock:
            status = self._status
            self._status = msgspec.structs.replace(
                status, ignored=status.ignored + left_out.tuples, last_ignored=left_out.field
            )

    def _note(self, kind: str, count: int, reason: str, what: bytes = b"") -> None:
        with self._lock:
            counted = {kind: getattr(self._status, kind) + count, "last_rejected": reason}
            self._status = msgspec.structs.replace(self._status, **counted)
            now_us = self._clock_us()
            if now_us // 1_000_000 != self._second:
                self._second, self._written = now_us // 1_000_000, 0
            self._written += 1
            if self._file is None or self._written > WRITTEN_A_SECOND:
                return
            line = msgspec.json.encode(
                {
                    "at_us": now_us,
                    "kind": kind,
                    "count": count,
                    "reason": reason,
                    "what": what[:SHOWN_BYTES].decode("utf-8", "replace"),
                }
            )
            # A disk that is full must not end a connection.
            with contextlib.suppress(OSError):
                self._write(self._file, line)

    def _write(self, path: Path, line: bytes) -> None:
        # Its folder may have been removed since.
        path.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(line + b"\n")
            size = file.tell()
        if size > FILE_BYTES:
            path.replace(path.with_suffix(".1.jsonl"))
