"""Savepoints of a cluster: asking for them, listing, deleting and exporting them.

A client writes that it wants a savepoint. The leader does the rest, whatever becomes of the client
(`orchestrator.control.decide.savepoints`, `orchestrator.control.savepoint_work`).
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from foundation.suggestions import nearest
from orchestrator.api.connection import Cluster
from orchestrator.checkpoints.checkpoint_file import CheckpointRefused
from orchestrator.checkpoints.savepoint import KeptFiles, Savepoint, savepoint_of, savepoints_of
from orchestrator.control.decide.savepoints import NO_FOLDER
from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.documents.document import slug
from orchestrator.errors import InvalidInput, Refused, Unreachable
from orchestrator.progress import Progress, silent
from orchestrator.records import BeginFrom, ClocksRecord, SavepointRecord, SavepointState
from orchestrator.results.savepoints import (
    ExportedSavepoint,
    SavedFragmentState,
    SavepointsDocument,
    SavepointStatus,
)
from orchestrator.store.overtaken import until_not_overtaken
from orchestrator.store.protocol import (
    CHECKPOINTS,
    CLOCKS,
    CLUSTER,
    LEADER,
    PROPOSALS,
    SAVEPOINTS,
    Store,
)

LOOK_EVERY_S = 0.1

LEADER_S = 30.0
"""Time for somebody to lead: an election takes seconds."""

MOST_NAME = 64
"""Characters of a savepoint's name."""

STATES = {
    SavepointState.WANTED: "waiting",
    SavepointState.COPYING: "copying",
    SavepointState.DELETED: "removing",
}
"""Steps, as progress tells them."""


def savepoints(cluster: Cluster) -> SavepointsDocument:
    """All savepoints, the newest last."""
    folder = _folder(cluster.store)
    found = [each.record for each in cluster.store.list(SAVEPOINTS).records.values()]
    found.sort(key=lambda each: (each.asked_us, each.name))
    return SavepointsDocument(savepoints=tuple(_status(each, folder) for each in found))


def savepoint(cluster: Cluster, name: str) -> SavepointStatus:
    """One savepoint.

    Raises
    ------
    InvalidInput
        There is none of that name.
    """
    return _status(_known(cluster.store, name), _folder(cluster.store))


def create_savepoint(
    cluster: Cluster, name: str | None = None, on_progress: Progress = silent
) -> SavepointStatus:
    """Have a savepoint made, and wait until it is kept.

    Parameters
    ----------
    name
        Small letters, digits and single hyphens; None: one with date and time.

    Raises
    ------
    InvalidInput
        The name cannot be one, or there is a savepoint of that name.
    Refused
        No savepoint came about; says why.
    Unreachable
        Nobody leads.
    """
    store = cluster.store
    clocks = store.get(CLOCKS)
    now_us = cluster_now_us(ClocksRecord(machines={}) if clocks is None else clocks.record)
    if name is None:
        name = datetime.fromtimestamp(now_us / 1e6, tz=UTC).strftime("savepoint-%Y%m%d-%H%M%S")
    if name in {each.value for each in BeginFrom}:
        problem = "cannot be a name: `vivace apply --from` means something else by it"
        raise InvalidInput("", "savepoint", name, problem, "Choose another name.")
    if not name or slug(name) != name or len(name) > MOST_NAME:
        remedy = f"Use small letters, digits and single hyphens, {MOST_NAME} at most"
        remedy += f", such as {slug(name)[:MOST_NAME]}." if slug(name) else "."
        raise InvalidInput("", "savepoint", name, "cannot be a name", remedy)
    settings = store.get(CLUSTER)
    if settings is None or settings.record.state is None:
        raise InvalidInput(
            "", "savepoint", name, "cannot be kept", f"{NO_FOLDER[0].upper()}{NO_FOLDER[1:]}."
        )
    wanted = SavepointRecord(name=name, asked_us=now_us, by=cluster.by)
    key = SAVEPOINTS.key(name)

    def ask() -> None:
        known = store.get(key)
        if known is None:
            store.create(key, wanted)
        elif known.record.state is SavepointState.FAILED:
            store.update(key, wanted, known.version)
        else:
            problem = f"is the name of a savepoint that is {known.record.state.value}"
            remedy = f"Choose another name, or `vivace savepoint delete {name}` first."
            raise InvalidInput("", "savepoint", name, problem, remedy)

    until_not_overtaken(key.path, ask)
    record = _awaited(store, name, on_progress)
    if record is None or record.state is SavepointState.DELETED:
        problem = "was deleted while it was made"
        raise Refused(f"savepoint {name}", "name", name, problem, "Ask for it again.", {})
    if record.state is SavepointState.FAILED:
        folder = settings.record.state.folder
        raise Refused(f"savepoint {name}", "state", folder, record.why, "", {})
    return _status(record, settings.record.state.folder)


def delete_savepoint(
    cluster: Cluster, name: str, on_progress: Progress = silent
) -> SavepointsDocument:
    """Delete a savepoint with its files, also one that is being made; those that are left.

    Raises
    ------
    InvalidInput
        There is none of that name.
    Refused
        Its files cannot be removed, or a query still goes on from them.
    Unreachable
        Nobody leads.
    """
    store, key = cluster.store, SAVEPOINTS.key(name)
    _known(store, name)
    _check_unused(store, name)

    def change() -> None:
        if (known := store.get(key)) is not None:
            record = msgspec.structs.replace(
                known.record, state=SavepointState.DELETED, why="", by=cluster.by
            )
            store.update(key, record, known.version)

    until_not_overtaken(key.path, change)
    left = _awaited(store, name, on_progress, deleting=True)
    if left is not None and left.why:
        remedy = "The leader tries again until it succeeds."
        raise Refused(f"savepoint {name}", "folder", _folder(store), left.why, remedy, {})
    return savepoints(cluster)


def export_savepoint(
    kept: SavepointStatus, target: Path, on_progress: Progress = silent
) -> ExportedSavepoint:
    """Copy a savepoint out of its folder, which must be reached from this machine.

    Parameters
    ----------
    target
        A folder, or a tar file if its name ends in `.tar`. Neither may be there.

    Raises
    ------
    InvalidInput
        The savepoint is not kept, cannot be read from here, or the copy cannot be written.
    """
    if not kept.folder:
        raise InvalidInput(
            "", "savepoint", kept.name, "lies nowhere", f"{NO_FOLDER[0].upper()}{NO_FOLDER[1:]}."
        )
    if kept.state != SavepointState.KEPT.value:
        remedy = "`vivace savepoint list` shows what becomes of it."
        raise InvalidInput("", "savepoint", kept.name, f"is {kept.state}", remedy)
    try:
        found = Savepoint(KeptFiles(kept.folder, kept.name))
        size = found.export(
            target, lambda done: on_progress("exporting", _share(done, found.index.bytes))
        )
    except CheckpointRefused as refused:
        remedy = "Run this where the cluster's folder of checkpoints can be read."
        problem = f"cannot be read: {refused}"
        raise InvalidInput("", "savepoint", kept.name, problem, remedy) from None
    except OSError as error:
        is_there = isinstance(error, FileExistsError)
        problem = "is there already" if is_there else f"cannot be written ({error.strerror})"
        remedy = "Name a folder, or a file that ends in .tar, that can be made."
        raise InvalidInput("command line", "TARGET", str(target), problem, remedy) from None
    return ExportedSavepoint(name=kept.name, path=str(target), bytes=size)


def _check_unused(store: Store, name: str) -> None:
    """Refuse to delete a savepoint whose states fragments would need if they lost their own."""
    lists = [each.record for each in store.list(CHECKPOINTS).records.values()]
    for found in store.list(PROPOSALS).records.values():
        # Its queries may have no place yet.
        lists += found.record.checkpoints if found.record.accepted else ()
    used = sorted(
        {
            each.query
            for each in lists
            for stored in each.stored
            if savepoint_of(stored.name) == name
        }
    )
    if used:
        problem = f"is what {', '.join(used)} would go on from if all replicas were lost now"
        remedy = "Try again once there are newer checkpoints: `state.every` says how often."
        raise Refused(f"savepoint {name}", "name", name, problem, remedy, {})


def _awaited(
    store: Store, name: str, on_progress: Progress, *, deleting: bool = False
) -> SavepointRecord | None:
    """The record of a savepoint once nothing more is to be done for it; None: it is gone."""
    led_s = time.monotonic()
    while (found := store.get(SAVEPOINTS.key(name))) is not None:
        record = found.record
        if deleting and record.why:
            return record
        if (step := STATES.get(record.state)) is None:
            return record
        told = _share(record.copied_bytes, record.bytes)
        if deleting:
            told = f"{len(record.pieces)} states"
        elif record.state is SavepointState.WANTED:
            told = "for every fragment to write a checkpoint"
        on_progress(step, told)
        if store.get(LEADER) is not None:
            led_s = time.monotonic()
        elif time.monotonic() - led_s > LEADER_S:
            problem = "does not lead"
            remedy = f"Savepoint {name} is noted, and is made once a coordinator leads."
            raise Unreachable("The coordinator", "the cluster", problem, remedy)
        time.sleep(LOOK_EVERY_S)
    return None


def _share(done: int, of: int) -> str:
    return f"{done:,} of {of:,} bytes"


def _known(store: Store, name: str) -> SavepointRecord:
    records = store.list(SAVEPOINTS).records
    if name not in records:
        remedy = nearest(name, records) if records else "`vivace savepoint create` makes one."
        raise InvalidInput("", "savepoint", name, "is unknown", remedy)
    return records[name].record


def _folder(store: Store) -> str:
    settings = store.get(CLUSTER)
    return "" if settings is None or settings.record.state is None else settings.record.state.folder


def _status(record: SavepointRecord, folder: str) -> SavepointStatus:
    return SavepointStatus(
        name=record.name,
        state=record.state.value,
        asked_us=record.asked_us,
        ended_us=record.ended_us,
        by=record.by,
        bytes=record.bytes,
        copied_bytes=record.copied_bytes,
        queries=tuple(sorted({each.fragment.partition(".")[0] for each in record.pieces})),
        states=tuple(
            SavedFragmentState(
                fragment=each.fragment,
                at_us=each.at_us,
                bytes=each.bytes,
                copied=each.crc32 is not None,
            )
            for each in record.pieces
        ),
        left_out=record.left_out,
        folder=savepoints_of(folder).folder if folder else "",
        why=record.why,
    )
