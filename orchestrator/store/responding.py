"""Responding to records that somebody leaves in a folder: a question each, for one process.

Whoever asks creates an ephemeral record, and waits until the response stands in it. A thread of its
own responds; the loop of the process knows nothing of it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from orchestrator.records import Record
from orchestrator.store.protocol import (
    RecordFolder,
    RecordMissing,
    Store,
    StoreError,
    VersionConflict,
)

R = TypeVar("R", bound=Record)

RETRY_S = 0.5
"""Time between two attempts while the store is away."""

STOP_TIMEOUT_S = 1.0
"""How long the end waits for a response under way, which nobody needs any more."""

_log = logging.getLogger("vivace.responding")


def respond_to(store: Store, folder: RecordFolder[R], response_to: Callable[[R], R | None]) -> None:
    """Write the responses to what a folder holds.

    Parameters
    ----------
    response_to
        A record with its response; None for one that has a response, or asks somebody else.

    Raises
    ------
    StoreError
        Call again.
    """
    for name, found in store.list(folder).records.items():
        if (response := response_to(found.record)) is None:
            continue
        # Whoever asked may have gone.
        with suppress(RecordMissing, VersionConflict):
            store.update(folder.key(name), response, found.version)


class RespondingThread:
    """Responds whenever somebody asks.

    Parameters
    ----------
    respond
        Responds to all that is asked; how many seconds later to call it again, though nobody asks,
        or None.
    """

    def __init__(
        self, store: Store, folder: RecordFolder[R], respond: Callable[[], float | None]
    ) -> None:
        self._respond = respond
        self._something = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=folder.path, daemon=True)
        self._watch = store.watch(folder, self._something.set)
        self._thread.start()

    def close(self) -> None:
        """End, unless a response is under way: then the thread ends with the process."""
        self._watch.cancel()
        self._stopping = True
        self._something.set()
        self._thread.join(timeout=STOP_TIMEOUT_S)

    def _run(self) -> None:
        pause_s: float | None = None
        while True:
            self._something.wait(pause_s)
            self._something.clear()
            if self._stopping:
                return
            try:
                pause_s = self._respond()
            except StoreError as error:
                _log.debug("nobody can be responded to: %s", error)
                pause_s = RETRY_S
