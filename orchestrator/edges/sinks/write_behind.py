"""A sink whose disk does not hold up its host: it has a thread of its own for all that it does."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from orchestrator.edges.events import Deliver, Durable
from orchestrator.edges.sinks.driver import LiveSink, OpenSink
from orchestrator.edges.supervision import kept


class WriteBehind:
    """A sink that is opened, flushed and closed on a thread of its own.

    Each of these may wait for a disk or a broker. The host's loop, which also sends signs of life
    and serves other streams, does not. Deliveries that come while a flush is under way are written
    by the next one. They are bounded by the host's credit: producers send no more than a window
    beyond what is kept for good. If the sink cannot say what that is, everything that it has
    flushed counts.

    Parameters
    ----------
    open_sink
        Opens the sink that writes; may raise anything. Only the thread uses the sink, but for
        `LiveSink.arrived`.
    after
        The stream's former sink, which must have ended before.
    """

    def __init__(
        self, open_sink: Callable[[], OpenSink], *, after: WriteBehind | None = None
    ) -> None:
        self._open_sink, self._after = open_sink, after
        self._live: LiveSink | None = None
        self._durable: Durable | None = None
        self._changed = threading.Condition()
        self._kept: list[Deliver] = []
        self._is_open = self._wanted = self._closing = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="sink", daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """Whether it has been opened; raises what made it fail."""
        with self._changed:
            self._check()
            return self._is_open

    def wait_until_open(self) -> None:
        """Wait until it is open, or raise what made it fail."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_open or self._error is not None)
            self._check()

    @property
    def has_ended(self) -> bool:
        """Whether it has failed or is closed, and uses nothing any more."""
        return not self._thread.is_alive()

    @property
    def address(self) -> str | None:
        """Where it shows what has come; None: nowhere, or it is not open yet."""
        live = self._live
        return None if live is None else live.address

    def take_dropped(self) -> int:
        """How many slow readers have lost their connection since the last call."""
        live = self._live
        return 0 if live is None else live.take_dropped()

    @property
    def durable(self) -> Durable | None:
        """Up to where the stream is kept for good; raises what made the sink fail."""
        with self._changed:
            self._check()
            return self._durable

    def keep(self, delivery: Deliver) -> None:
        """Take a delivery in, once the sink is open."""
        if (live := self._live) is not None:
            live.arrived(delivery)
        with self._changed:
            self._kept.append(delivery)

    def flush(self) -> None:
        """Have everything written; `durable` says when that is done."""
        with self._changed:
            self._check()
            self._wanted = True
            self._changed.notify_all()

    def close(self) -> None:
        """Have the flush that was asked for finished, and everything released."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def wait_until_written(self) -> None:
        """Once closed, wait for what was asked for; nothing was of a sink that is not open."""
        if (after := self._after) is not None:
            after.wait_until_written()
        with self._changed:
            was_asked = self._is_open
        if was_asked:
            self.wait()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until it has ended."""
        self._thread.join(seconds)

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        if self._after is not None:
            self._after.wait()
            self._after = None
        if self._closing:
            return
        sink: OpenSink | None = None
        try:
            sink = self._open_sink()
            self._opened(sink)
            while self._asked_to_write():
                self._write(sink)
        except BaseException as error:  # noqa: BLE001
            self._failed(error)
        finally:
            # It may wait for what has failed, so whoever asks has been told before.
            with contextlib.suppress(Exception):
                if sink is not None:
                    sink.close()
            self._live = None
            self._kept = []

    def _failed(self, error: BaseException) -> None:
        with self._changed:
            self._error = kept(error, "sink")
            self._changed.notify_all()

    def _opened(self, sink: OpenSink) -> None:
        # Both may ask a broker, so not while the loop has to wait.
        durable, live = sink.durable, sink if isinstance(sink, LiveSink) else None
        with self._changed:
            self._live = live
            self._durable, self._is_open = durable, True
            self._changed.notify_all()

    def _asked_to_write(self) -> bool:
        """Wait for something to do; False: to close."""
        with self._changed:
            self._changed.wait_for(lambda: self._wanted or self._closing)
            return self._wanted

    def _write(self, sink: OpenSink) -> None:
        with self._changed:
            self._wanted = False
            kept, self._kept = self._kept, []
        for delivery in kept:
            sink.keep(delivery)
        sink.flush()
        durable = sink.durable
        if durable is None and kept:
            durable = kept[-1].end
        with self._changed:
            self._durable = durable
