"""Changes that others may overtake: read what there is, write under its version, or begin again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from orchestrator.store.protocol import RecordExists, RecordMissing, VersionConflict

T = TypeVar("T")

ATTEMPTS = 8


def until_not_overtaken(path: str, change: Callable[[], T]) -> T:
    """What a change returns that is made anew while others write between its reading and writing.

    Parameters
    ----------
    path
        Of the record, for the error.
    change
        Reads everything that it rests on, and writes last.

    Raises
    ------
    VersionConflict
        Others were faster `ATTEMPTS` times in a row.
    """
    for _ in range(ATTEMPTS):
        with suppress(RecordExists, RecordMissing, VersionConflict):
            return change()
    raise VersionConflict(path, f"was changed by others {ATTEMPTS} times in a row")
