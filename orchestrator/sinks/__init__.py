"""Sinks take streams out of a cluster; `driver` describes what one must do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from orchestrator.drivers import Registry, options_of
from orchestrator.host.events import Deliver
from orchestrator.records import DriverSpec
from orchestrator.sinks.delivered import Delivered
from orchestrator.sinks.driver import OpenSink, SinkDriver

if TYPE_CHECKING:
    from orchestrator.manifest.document import Field

DEFAULT = DriverSpec(driver="archive")
"""The sink of an output that names none."""

_registry = Registry(
    "vivace.sinks", SinkDriver, {DEFAULT.driver: "orchestrator.sinks.archive:Archive"}
)
register = _registry.register
preload = _registry.preload
restore = _registry.restore


def read(field: Field) -> DriverSpec:
    """The field `to` of an output.

    Raises
    ------
    InvalidInput
        Naming file, line, field and value.
    """
    name, driver = _registry.read(field)
    return DriverSpec(driver=name, options=options_of(driver))


def read_back(folder: Path, stream: str, sink: DriverSpec | None = None) -> Delivered:
    """All that a site's sink has flushed of a stream; see `SinkDriver.read_back`."""
    return restore(sink or DEFAULT).read_back(stream, folder)


@dataclass(frozen=True, slots=True)
class _Opened:
    spec: DriverSpec
    schema: pa.Schema
    sink: OpenSink


class SinkDrivers:
    """All sinks of one host: each delivery goes to the sink of its stream.

    Parameters
    ----------
    folder
        The host's own, for sinks that keep files; made if missing.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._opened: dict[str, _Opened] = {}

    def keep(self, delivery: Deliver) -> None:
        """Hand a delivery to its sink, which is opened at the first one.

        A stream that comes back with another sink or other columns belongs to a new query of the
        same name: its sink is opened anew.

        Raises
        ------
        DriverError
            If the sink cannot be opened.
        """
        stream, schema = delivery.stream, delivery.chunk.rows.schema
        spec = delivery.sink or DEFAULT
        opened = self._opened.get(stream)
        if opened is None or opened.spec != spec or opened.schema != schema:
            if opened is not None:
                opened.sink.close()
            sink = restore(spec).open(stream, self._folder)
            opened = self._opened[stream] = _Opened(spec, schema, sink)
        opened.sink.keep(delivery)

    def flush(self) -> None:
        """Let readers see everything that was kept."""
        for opened in self._opened.values():
            opened.sink.flush()

    def close(self) -> None:
        """Flush and end all sinks."""
        for opened in self._opened.values():
            opened.sink.close()
        self._opened.clear()
