"""The opening of a source, which may read a large recording or wait for a disk.

A host's loop sends signs of life, and serves all its other streams: it does not stand still for it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from orchestrator.edges.sources.driver import OpenSource, SourceContext
from orchestrator.edges.supervision import kept


class Opening:
    """One source that is being opened, on a thread of its own if the context says so.

    Parameters
    ----------
    open_source
        Opens it; may raise anything.
    context
        Where it is opened. Its host is woken when the opening has ended.
    now_us
        When that began, clock of the caller.

    Attributes
    ----------
    since_us
        When it began.
    ended
        Whether it has ended, and nothing is left of what was abandoned.
    """

    def __init__(
        self, open_source: Callable[[], OpenSource], context: SourceContext, now_us: int
    ) -> None:
        self.since_us = now_us
        self.ended = False
        self._open_source, self._context = open_source, context
        self._lock = threading.Lock()
        self._abandoned = False
        self._source: OpenSource | None = None
        self._error: Exception | None = None
        if context.opens_aside:
            threading.Thread(target=self._run, name="opening", daemon=True).start()
        else:
            self._run()

    def opened(self) -> OpenSource:
        """The source, after the end; raises what opening it raised."""
        if self._error is not None:
            raise self._error
        assert self._source is not None
        return self._source

    def abandon(self) -> None:
        """Close the source, now or as soon as it is open: nobody will ask for it."""
        with self._lock:
            self._abandoned = True
            source, self._source = self._source, None
        _close(source)

    def _run(self) -> None:
        try:
            self._context.check_claim()
            source = self._open_source()
        except BaseException as error:
            if not (self._context.opens_aside or isinstance(error, Exception)):
                raise
            self._error = kept(error, "source")
        else:
            with self._lock:
                if not self._abandoned:
                    self._source, source = source, None
            _close(source)
        self.ended = True
        self._context.wake()


def _close(source: OpenSource | None) -> None:
    if source is not None:
        with contextlib.suppress(Exception):
            source.close()
