"""A sink whose disk does not hold up its host: deliveries are written on a thread of their own."""

from __future__ import annotations

import threading

from orchestrator.host.events import Deliver, Durable
from orchestrator.sinks.driver import LiveSink, OpenSink


class WriteBehind:
    """An open sink that is flushed on a thread of its own.

    A flush may wait for a disk. The host's loop, which also sends signs of life and serves other
    streams, does not. Deliveries that come while a flush is under way are written by the next one.
    They are bounded by the host's credit: producers send no more than a window beyond what is kept
    for good. If the sink cannot say what that is, everything that it has flushed counts.

    Parameters
    ----------
    sink
        The sink that writes. Only the thread uses it until `close`, but for `LiveSink.arrived`.

    Attributes
    ----------
    address
        Where it shows what has come; None: nowhere.
    """

    def __init__(self, sink: OpenSink) -> None:
        self._sink = sink
        self._live = sink if isinstance(sink, LiveSink) else None
        self.address = None if self._live is None else self._live.address
        self._durable = sink.durable
        self._changed = threading.Condition()
        self._kept: list[Deliver] = []
        self._wanted = self._closing = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._write, name="sink", daemon=True)
        self._thread.start()

    @property
    def durable(self) -> Durable | None:
        """Up to where the stream is kept for good; raises what made the sink fail."""
        with self._changed:
            self._check()
            return self._durable

    def keep(self, delivery: Deliver) -> None:
        """Take a delivery in."""
        if self._live is not None:
            self._live.arrived(delivery)
        with self._changed:
            self._kept.append(delivery)

    def flush(self) -> None:
        """Have everything written; `durable` says when that is done."""
        with self._changed:
            self._check()
            self._wanted = True
            self._changed.notify()

    def close(self) -> None:
        """Finish the flush that was asked for, and release everything."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()
        self._sink.close()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted or self._closing)
                if not self._wanted:
                    return
                self._wanted = False
                kept, self._kept = self._kept, []
            try:
                for delivery in kept:
                    self._sink.keep(delivery)
                self._sink.flush()
                durable = self._sink.durable
                if durable is None and kept:
                    durable = kept[-1].end
            except Exception as error:  # noqa: BLE001  A driver may fail in any way.
                with self._changed:
                    self._error = error
                return
            with self._changed:
                self._durable = durable
