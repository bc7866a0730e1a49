"""Processes of the next version in the simulated world.

They speak one wire more and read records one step on. To have older readers matter, the assignments
that a coordinator of the next version writes need its records, once every process reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, TypeVar

from orchestrator.control.observe.view import ClusterView
from orchestrator.records import Assignment, Record
from orchestrator.records.versions import RECORDS, Versions, this_version
from orchestrator.simulation.world.memory_store import MemoryServer, MemoryStore
from orchestrator.store.protocol import Key, Precondition

R = TypeVar("R", bound=Record)


def next_version() -> Versions:
    """What the next version understands."""
    here = this_version()
    least, newest = here.wire
    return Versions(product="next", wire=(least, newest + 1), records=here.records + 1)


class LaterAssignment(Assignment, frozen=True, kw_only=True):
    """An assignment as the next version may have it: what it says of records is not overlooked."""

    later: ClassVar[Mapping[str, int]] = {"records": RECORDS + 1}


class NextStore(MemoryStore):
    """A session of a process of the next version."""

    def __init__(self, server: MemoryServer) -> None:
        super().__init__(server)
        self.records = next_version().records

    def create(
        self,
        key: Key[R],
        record: R,
        *,
        ephemeral: bool = False,
        precondition: Precondition | None = None,
    ) -> int:
        """Create a record and return its version."""
        later = _with_later_fields(record)
        return super().create(key, later, ephemeral=ephemeral, precondition=precondition)

    def update(
        self, key: Key[R], record: R, version: int, *, precondition: Precondition | None = None
    ) -> int:
        """Replace a record and return its new version."""
        later = _with_later_fields(record)
        return super().update(key, later, version, precondition=precondition)


def _with_later_fields(record: Record) -> Record:
    if not isinstance(record, Assignment):
        return record
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    return LaterAssignment(**fields)


def unsettled(view: ClusterView, versions: Mapping[str, Versions]) -> Iterator[str]:
    """What assignments say of versions and is not so.

    Parameters
    ----------
    versions
        Of the hosts that run, by node.
    """
    for name, found in view.assignments.items():
        if found.record.records != view.records:
            yield f"{name} is told records {found.record.records}, and all read {view.records}"
        for peer in found.record.peers:
            here, there = versions.get(name), versions.get(peer.node)
            if here is not None and there is not None and peer.wire != here.spoken_with(there):
                yield f"{name} is told wire {peer.wire} of {peer.node}"
