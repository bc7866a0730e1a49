"""Sources bring streams into a cluster; `driver` describes what one must do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from orchestrator.edges.drivers import Registry, options_of
from orchestrator.edges.sources.driver import RecordedSource, SourceDriver
from orchestrator.records import SourceSpec, StreamRecord

if TYPE_CHECKING:
    from orchestrator.documents.document import Field

_registry = Registry(
    "vivace.sources",
    SourceDriver,
    {
        "folder": "orchestrator.edges.sources.folder:Folder",
        "http": "orchestrator.edges.sources.http:Http",
        "kafka": "orchestrator.edges.sources.kafka:Kafka",
        "replay": "orchestrator.edges.sources.replay:Replay",
        "side": "orchestrator.edges.sources.side_streams:SideSource",
        "tcp": "orchestrator.edges.sources.tcp:Tcp",
    },
    unwritten=["side"],
)
register = _registry.register
preload = _registry.preload
restore = _registry.restore


def read(field: Field) -> SourceSpec:
    """The section `from` of a stream's manifest.

    Raises
    ------
    InvalidInput
        Naming file, line, field and value.
    """
    return spec_of(*_registry.read(field))


def spec_of(name: str, driver: SourceDriver) -> SourceSpec:
    """A source as the store keeps it."""
    return SourceSpec(
        driver=name,
        options=options_of(driver),
        together_ms=driver.together_ms,
        advances_ms=driver.advances_ms,
        advances_after_ms=driver.advances_after_ms,
        guarantee=driver.guarantee,
    )


def recorded(stream: StreamRecord) -> RecordedSource | None:
    """The recording that a stream is played from; None if it has another source."""
    driver = restore(stream.source) if stream.source is not None else None
    return driver if isinstance(driver, RecordedSource) else None


def played(stream: StreamRecord, **options: Any) -> StreamRecord:
    """The stream with other options of its source, such as a stretch of its recording."""
    assert stream.source is not None, f"stream {stream.name} has no source"
    driver = msgspec.structs.replace(restore(stream.source), **options)
    return msgspec.structs.replace(stream, source=spec_of(stream.source.driver, driver))
