"""A live input without a journal that responds once all readers of the stream have the tuples.

Both replicas of each fragment that reads the stream then hold them in their state, so neither the
site nor its disk is needed any more. A site that starts again begins the stream anew. A client
sends again the batches to which it got no response. Consumers leave out tuples with timestamps that
were complete for them. They thereby leave out tuples that they had, and new tuples that are late.
Nobody can tell these two apart, and the response says so (`undecided`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from foundation.arrays import IntArray
from orchestrator.edges.drivers import DriverError
from orchestrator.edges.sources.live.ingestion import Full, Push
from orchestrator.edges.sources.live.live_input import LiveInput
from streams.vectors.chunk import NO_WATERMARK

PATIENCE_S = 20.0
"""How long a client whose batches have numbers waits until it is told to send its batch again."""


class ConfirmedInput(LiveInput):
    """A live input whose clients are told the outcome of a batch once consumers have it."""

    waits_for_consumers = True

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._confirmed_ms = self._had_ms = NO_WATERMARK
        self._unconfirmed: list[Push] = []

    def confirm(self, watermark_ms: int, had_ms: int) -> None:
        """Note up to where all readers have acknowledged the stream.

        Parameters
        ----------
        had_ms
            Highest watermark that a reader had before the stream began anew.
        """
        if watermark_ms > self._confirmed_ms:
            with self._changed:
                self._confirmed_ms, self._had_ms = watermark_ms, had_ms
            self._respond(())

    def tuples_between(self, after_ms: int, until_ms: int) -> int:
        """None is missing that a client was told of, and clients send the others again."""
        return 0

    def close(self) -> None:
        """End. Clients are to send again the batches that were not acknowledged."""
        super().close()
        self._fail(())

    def _wait_for(self, push: Push) -> None:
        """Wait for the outcome; a batch without a number must not be sent twice."""
        if not push.done.wait(PATIENCE_S if push.client else None):
            with self._changed:
                # Nobody waits for it any more, and the client sends it again and again.
                self._unconfirmed = [each for each in self._unconfirmed if each is not push]
            raise Full

    def _respond(self, pushes: Sequence[Push]) -> None:
        with self._changed:
            waiting = [*self._unconfirmed, *(push for push in pushes if push.confirms)]
            confirmed = [push for push in waiting if push.until_ms <= self._confirmed_ms]
            self._unconfirmed = [push for push in waiting if push.until_ms > self._confirmed_ms]
        for push in confirmed:
            self._decide(push)
        super()._respond(confirmed)
        if self._closing:
            self._fail(())

    def _decide(self, push: Push) -> None:
        """Tell tuples that entered from those that consumers may have left out."""
        taken = push.outcome
        if self._had_ms == NO_WATERMARK or taken is None or taken.repeated:
            return
        entered = _until(push.rows.column(0).to_numpy(), self._had_ms)
        late = 0 if push.late_ms is None else _until(push.late_ms, self._had_ms)
        push.outcome = replace(
            taken,
            accepted=taken.accepted - entered,
            late=taken.late - late,
            undecided=entered + late,
        )

    def _fail(self, pushes: Sequence[Push]) -> None:
        with self._changed:
            waiting, self._unconfirmed = self._unconfirmed, []
        error = self._error or DriverError("the source ends")
        for push in [*waiting, *pushes]:
            push.error, push.outcome = error, None
            push.done.set()


def _until(timestamps_ms: IntArray, until_ms: int) -> int:
    """How many timestamps lie no later."""
    return int((timestamps_ms <= until_ms).sum())
