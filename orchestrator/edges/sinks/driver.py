"""The protocol of a sink driver, which takes a stream out.

The host's core has every tuple delivered once, in order. Its commands `Deliver` reach an open sink,
which has no clock. The host has it flush at intervals, on a thread of its own
(`orchestrator.edges.sinks.write_behind`), so that a slow disk does not hold up the host.

The host acknowledges flushed tuples, and no others. Producers keep all other output and send it
again if the site is killed. A sink that is opened again says up to where it has kept the stream for
good (`OpenSink.durable`), and the deliveries continue from there. If a flush keeps its deliveries
together with their end, or not at all, each tuple is kept exactly once, whenever the site dies. A
sink that cannot say up to where it has kept the stream begins with the oldest output that producers
still keep, and may get tuples twice. Its flushed tuples count as kept all the same, since producers
cannot keep everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from orchestrator.edges.drivers import Driver, DriverError
from orchestrator.edges.events import Deliver, Durable
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.records import SinkAssignment

if TYPE_CHECKING:
    from orchestrator.edges.site_check import SiteCheck


class OpenSink(Protocol):
    """One stream that is being taken out."""

    @property
    def durable(self) -> Durable | None:
        """Up to where the stream is kept for good; None if nothing is, or if that is unknown.

        "For good" means that it outlives the process, and the machine if the sink promises that.
        """
        ...

    def keep(self, delivery: Deliver) -> None:
        """Take a delivery in; the next `flush` writes it."""
        ...

    def flush(self) -> None:
        """Write all deliveries, so that readers see them and `durable` includes them."""
        ...

    def close(self) -> None:
        """Release everything. Deliveries that were not flushed are dropped; they come again."""
        ...


@runtime_checkable
class LiveSink(OpenSink, Protocol):
    """An open sink that shows delivered tuples at once.

    Attributes
    ----------
    address
        Where.
    """

    address: str

    def take_dropped(self) -> int:
        """How many readers have lost their connection since the last call, as they did not read."""
        ...

    def arrived(self, delivery: Deliver) -> None:
        """Called at once with tuples that `keep` will get later; must not block."""
        ...


class SinkDriver(Driver, frozen=True, kw_only=True):
    """Options of a sink, read out of an output's field `to` in a query's manifest."""

    @property
    def reserved(self) -> Mapping[str, str]:
        """Columns that its readers find beside those of the stream → their meaning."""
        return {}

    @property
    def ignores_case(self) -> bool:
        """Whether readers that it is made for take names that differ in case only for one."""
        return False

    def check(self, assignment: SinkAssignment, site: SiteCheck) -> None:
        """Look whether the sink could be opened at a site; nothing is changed there.

        Before a query is applied, the site does this on a thread that may wait. That its own folder
        can be written has been looked at.

        Raises
        ------
        DriverError
            It could not; `Unusable` names the option that is to blame.
        """

    def open(self, assignment: SinkAssignment, folder: Path) -> OpenSink:
        """Begin to take a stream out, or continue.

        Parameters
        ----------
        assignment
            The stream and its columns. Tuples that were kept of a stream with another `life` belong
            to a former query.
        folder
            The site's own, for drivers that keep files.

        Raises
        ------
        DriverError
            Saying in one line what stands in the way.
        """
        raise NotImplementedError

    def kept(self, assignment: SinkAssignment, folder: Path) -> Durable | None:
        """Up to where an open sink would have kept the stream; nothing is changed.

        None if it has kept nothing, or cannot tell.

        Raises
        ------
        DriverError
            It cannot be asked.
        """
        return None

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
