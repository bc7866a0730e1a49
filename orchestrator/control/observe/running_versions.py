"""The versions of the processes that run."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.control.observe.read_cache import RecordReader
from orchestrator.records.versions import Versions
from orchestrator.store.protocol import CANDIDATES, NODES, WEBS

Running = tuple[str, str, Versions]
"""Kind, name and version of a process."""


def running_versions(store: RecordReader) -> Iterator[Running]:
    """Kind, name and version of every process that is in the store.

    A record that cannot be read says no version; whoever has written it is told of elsewhere.
    """
    for name, node in sorted(store.list(NODES).records.items()):
        yield node.record.kind.value, name, node.record.versions
    yield from versions_beside_hosts(store)


def versions_beside_hosts(store: RecordReader) -> Iterator[Running]:
    """The same of the processes that are no hosts."""
    for name, candidate in sorted(store.list(CANDIDATES).records.items()):
        yield "coordinator", name, candidate.record.versions
    for name, web in sorted(store.list(WEBS).records.items()):
        yield "web", name, web.record.versions
