"""The protocol of a sink driver, which takes a stream out.

The host's core decides what is delivered: every tuple once, in order. Its commands `Deliver`
reach an open sink, which has no thread and no clock. The host's loop lets it write at intervals.

A sink acknowledges nothing yet: the host acknowledges a tuple when it hands it over, before the
sink has flushed it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from orchestrator.drivers import Driver, DriverError
from orchestrator.host.events import Deliver
from orchestrator.sinks.delivered import Delivered


class OpenSink(Protocol):
    """One stream that is being taken out."""

    def keep(self, delivery: Deliver) -> None:
        """Take a delivery in; the next `flush` writes it."""
        ...

    def flush(self) -> None:
        """Write all deliveries, so that readers see them."""
        ...

    def close(self) -> None:
        """Write all deliveries, and release everything."""
        ...


class SinkDriver(Driver, frozen=True, kw_only=True):
    """Options of a sink, read out of an output's field `to` in a query's manifest."""

    def open(self, stream: str, folder: Path) -> OpenSink:
        """Begin to take a stream out.

        Parameters
        ----------
        folder
            The site's own, for drivers that keep files.

        Raises
        ------
        DriverError
            Saying in one line what stands in the way.
        """
        raise NotImplementedError

    def read_back(self, stream: str, folder: Path) -> Delivered:
        """All that was flushed of a stream, for measurement and verification.

        Raises
        ------
        FileNotFoundError
            If nothing of it has been flushed.
        DriverError
            If this driver's output cannot be read back.
        """
        raise DriverError(f"the sink of {stream} cannot be read back")
