"""Sinks take streams out of a cluster; `driver` describes what one must do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.edges.drivers import Registry, options_of
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.edges.sinks.driver import OpenSink, SinkDriver
from orchestrator.folders import PRIVATE
from orchestrator.records import DriverSpec, SinkAssignment

if TYPE_CHECKING:
    from orchestrator.documents.document import Field

DEFAULT = DriverSpec(driver="archive")
"""The sink of an output that names none."""

_registry = Registry(
    "vivace.sinks",
    SinkDriver,
    {
        DEFAULT.driver: "orchestrator.edges.sinks.archive:Archive",
        "http": "orchestrator.edges.sinks.http:HttpResults",
        "kafka": "orchestrator.edges.sinks.kafka:KafkaTopic",
        "parquet": "orchestrator.edges.sinks.parquet:ParquetFiles",
    },
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


def opener(folder: Path) -> Callable[[SinkAssignment], OpenSink]:
    """Opens the sink that an assignment names.

    Parameters
    ----------
    folder
        The host's own, for sinks that keep files; made if missing when one is opened.
    """

    def opened(assignment: SinkAssignment) -> OpenSink:
        # Whoever made it before decides who may enter.
        folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        return restore(assignment.sink or DEFAULT).open(assignment, folder)

    return opened
