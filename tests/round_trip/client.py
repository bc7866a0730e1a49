"""A client that sends to a stream for as long as a test kills processes."""

from __future__ import annotations

import threading
from collections.abc import Callable

import vivace
from tests.conftest import PATIENCE_S, WaitUntil

PAUSE_S = 0.02
"""Between the response to a batch and the next batch."""


class Client:
    """Sends batch after batch, each when it has the response to the one before.

    Parameters
    ----------
    address
        A site's, where the stream enters.
    stream
        Its name.
    send
        Sends the batch of a number, from 0 on, without gaps.
    """

    def __init__(
        self, address: str, stream: str, send: Callable[[vivace.Stream, int], None]
    ) -> None:
        self.sent = 0
        self._error: Exception | None = None
        self._stream = vivace.site(address, patience_s=PATIENCE_S).stream(stream)
        self._send = send
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def goes_on(self, wait_until: WaitUntil, batches: int) -> None:
        """Wait until so many more batches were sent, or sending failed."""
        enough = self.sent + batches
        wait_until(lambda: self._error is not None or self.sent >= enough)

    def end(self) -> None:
        """Send no more; raise what went wrong."""
        self._ended.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._ended.wait(PAUSE_S):
                self._send(self._stream, self.sent)
                self.sent += 1
        except Exception as error:  # noqa: BLE001  The test raises it.
            self._error = error
