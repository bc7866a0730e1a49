"""Brings the checkpoints of savepoints together, and removes those that are deleted.

It works beside the leader's steps. The record of a savepoint (`SavepointRecord`) says what is to be
done and how far it is, so a new leader goes on where the former one ended. The index is written
once all checkpoints are copied, so whoever looks sees a whole savepoint or none.

A step is about one file. Two leaders that overlap for a moment write the same files, and one of
them notices by the record's version that it is not alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol, TypeVar

import msgspec

from orchestrator.checkpoints.checkpoint_file import CheckpointRefused, read
from orchestrator.checkpoints.checkpoint_folder import CheckpointFolder
from orchestrator.checkpoints.savepoint import read_stored, savepoints_of
from orchestrator.checkpoints.savepoint_index import (
    INDEX,
    SavedFragment,
    SavepointIndex,
    piece_of,
    written,
)
from orchestrator.control.decide.savepoints import FAILED, NO_FOLDER, basis_of
from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.edges.sources.journal_saving import file_name
from orchestrator.records import (
    ClusterRecord,
    FragmentRecord,
    HistoryEvent,
    Record,
    SavepointPiece,
    SavepointRecord,
    SavepointState,
)
from orchestrator.records.versions import WIRE_VERSION, this_version
from orchestrator.store.protocol import (
    CLUSTER,
    QUERIES,
    RUNNING_QUERIES,
    STREAMS,
    RecordFolder,
    RecordMissing,
    Store,
    StoreError,
    VersionConflict,
    Versioned,
)
from orchestrator.store.protocol import SAVEPOINTS as RECORDS

R = TypeVar("R", bound=Record)

KEPT, DELETED = "savepoint kept", "savepoint deleted"
"""Kinds of events."""

FORGOTTEN_US = 600_000_000
"""How long the record of a savepoint that failed says why."""


class Folders(Protocol):
    """A folder of files under keys, as `CheckpointFolder` is one."""

    folder: str

    def read(self, key: str, name: str) -> bytes:
        """The content of a file. Raises `CheckpointRefused`."""
        ...

    def put(self, key: str, name: str, content: bytes) -> None:
        """Keep a file as a whole, in place of one of that name. Raises `CheckpointRefused`."""
        ...

    def remove(self, key: str, first: str) -> None:
        """Remove a file, then all others under its key. Raises `OSError`."""
        ...


OpenFolders = Callable[[ClusterRecord], tuple[Folders, Folders] | None]
"""The folders of checkpoints and of savepoints; None: the cluster has none."""


def folders_of(settings: ClusterRecord) -> tuple[Folders, Folders] | None:
    """Those that the cluster's settings name."""
    if (state := settings.state) is None:
        return None
    return CheckpointFolder(state.folder), savepoints_of(state.folder)


class SavepointWork:
    """What is to be done for the savepoints of one cluster.

    Parameters
    ----------
    store
        The cluster's, on a session that other threads use, too.
    leads
        Whether this process leads.
    open_folders
        Gives the folders.
    now_us
        The cluster's clock; None: as the store tells it.
    """

    def __init__(
        self,
        store: Store,
        leads: Callable[[], bool],
        open_folders: OpenFolders = folders_of,
        now_us: Callable[[], int] | None = None,
    ) -> None:
        self._store, self._leads, self._open = store, leads, open_folders
        self._now_us = now_us

    def step(self) -> bool:
        """Copy or remove something if there is something to do, and this process leads.

        Returns whether there may be more to do at once. Nothing is raised: what cannot be done is
        said in the record, and what the store does not take now is done with a later step.
        """
        if not self._leads():
            return False
        with suppress(StoreError):
            for _, found in sorted(self._store.list(RECORDS).records.items()):
                match found.record.state:
                    case SavepointState.COPYING if _can_go_on(found.record):
                        self._copy(found)
                        return True
                    case SavepointState.DELETED:
                        return self._delete(found)
                    case SavepointState.FAILED:
                        self._clear(found)
                    case _:
                        continue
        return False

    def _copy(self, found: Versioned[SavepointRecord]) -> None:
        record = found.record
        piece = next((each for each in record.pieces if each.crc32 is None), None)
        try:
            if (folders := self._folders()) is None:
                raise CheckpointRefused(NO_FOLDER)
            if piece is None:
                self._finish(found, folders)
            else:
                self._copy_piece(found, piece, folders)
        except CheckpointRefused as refused:
            self._fail(found, str(refused))

    def _copy_piece(
        self,
        found: Versioned[SavepointRecord],
        piece: SavepointPiece,
        folders: tuple[Folders, Folders],
    ) -> None:
        checkpoints, savepoints = folders
        content = _whole(checkpoints, savepoints, piece)
        savepoints.put(found.record.name, piece_of(piece.fragment), content)
        copied = msgspec.structs.replace(piece, bytes=len(content), crc32=zlib.crc32(content))
        pieces = tuple(copied if each is piece else each for each in found.record.pieces)
        self._update(found, pieces=pieces)

    def _finish(self, found: Versioned[SavepointRecord], folders: tuple[Folders, Folders]) -> None:
        record, (_, savepoints) = found.record, folders
        view = read_view(self._store)
        if changed := _changed(record, view):
            raise CheckpointRefused(
                f"{', '.join(changed)} changed while it was taken. Ask for it again"
            )
        now_us = self._now(view)
        saved = tuple(_saved(savepoints, record, piece) for piece in record.pieces)
        _check_journals(savepoints, record)
        index = _index(record, view, saved, now_us)
        savepoints.put(record.name, INDEX, written(index))
        detail = f"{len(saved)} checkpoints, {record.bytes} bytes, in {savepoints.folder}"
        try:
            self._update(found, event=(KEPT, detail), state=SavepointState.KEPT, ended_us=now_us)
        except (VersionConflict, RecordMissing):
            self._withdraw(record.name, savepoints)
            raise

    def _withdraw(self, name: str, savepoints: Folders) -> None:
        """Leave no savepoint that is there no longer, because somebody has deleted it meanwhile."""
        known = self._store.get(RECORDS.key(name))
        if known is None or known.record.state in (SavepointState.DELETED, SavepointState.FAILED):
            with suppress(OSError):
                savepoints.remove(name, INDEX)

    def _fail(self, found: Versioned[SavepointRecord], why: str) -> None:
        self._update(
            found, event=(FAILED, why), state=SavepointState.FAILED, why=why, ended_us=self._now()
        )

    def _delete(self, found: Versioned[SavepointRecord]) -> bool:
        if not self._emptied(found):
            return False
        self._store.delete(RECORDS.key(found.record.name), found.version)
        self._tell(DELETED, found.record.name, "its files are removed", found.record.by)
        return True

    def _clear(self, found: Versioned[SavepointRecord]) -> None:
        record = found.record
        if not record.emptied:
            if self._emptied(found):
                self._update(found, emptied=True)
        elif self._now() - (record.ended_us or 0) > FORGOTTEN_US:
            self._store.delete(RECORDS.key(record.name), found.version)

    def _emptied(self, found: Versioned[SavepointRecord]) -> bool:
        """Whether its files are gone; the record says why they are not."""
        if (folders := self._folders()) is None:
            return True
        try:
            folders[1].remove(found.record.name, INDEX)
        except OSError as error:
            why = f"its files cannot be removed: {error}"
            if found.record.why != why:
                self._update(found, why=why)
            return False
        return True

    def _folders(self) -> tuple[Folders, Folders] | None:
        settings = self._store.get(CLUSTER)
        return None if settings is None else self._open(settings.record)

    def _update(
        self,
        found: Versioned[SavepointRecord],
        *,
        event: tuple[str, str] | None = None,
        **fields: object,
    ) -> None:
        if not self._leads():
            return
        record = msgspec.structs.replace(found.record, **fields)
        self._store.update(RECORDS.key(record.name), record, found.version)
        if event is not None:
            self._tell(event[0], record.name, event[1], record.by)

    def _tell(self, kind: str, name: str, detail: str, by: str) -> None:
        at_us = self._now()
        event = HistoryEvent(at_us=at_us, kind=kind, subject=name, detail=detail, by=by)
        self._store.append_history(event)

    def _now(self, view: ClusterView | None = None) -> int:
        if self._now_us is not None:
            return self._now_us()
        return cluster_now_us((view or read_view(self._store)).cluster_clocks)


def _can_go_on(record: SavepointRecord) -> bool:
    """Whether something is to be copied, or all is: sites copy journals meanwhile."""
    return any(each.crc32 is None for each in record.pieces) or None not in record.journals.values()


def _whole(checkpoints: Folders, savepoints: Folders, piece: SavepointPiece) -> bytes:
    """The content of a checkpoint's file, which is read as a whole."""
    try:
        content = read_stored(checkpoints, savepoints, piece.fragment, piece.checkpoint)
        read(content)
    except CheckpointRefused as refused:
        raise CheckpointRefused(
            f"checkpoint {piece.checkpoint} of {piece.fragment} {refused}. "
            "Ask for the savepoint again: its fragments then write others"
        ) from refused
    return content


def _saved(savepoints: Folders, record: SavepointRecord, piece: SavepointPiece) -> SavedFragment:
    """What the index says of a copy, which is read again: a disk may have lost it."""
    content = savepoints.read(record.name, piece_of(piece.fragment))
    if (checksum := zlib.crc32(content)) != piece.crc32:
        raise CheckpointRefused(f"the copy of {piece.fragment} is damaged. Ask for it again")
    head, _ = read(content)
    stored = msgspec.structs.replace(head.stored, bytes=len(content))
    return SavedFragment(fragment=piece.fragment, bytes=len(content), crc32=checksum, stored=stored)


def _check_journals(savepoints: Folders, record: SavepointRecord) -> None:
    """Read the files of journals again."""
    for stream, copy in record.journals.items():
        for file in () if copy is None else copy.files:
            content = savepoints.read(record.name, file_name(stream, file.name))
            if zlib.crc32(content) != file.crc32:
                raise CheckpointRefused(f"the copy of a journal of {stream} is damaged. Ask again")


def _changed(record: SavepointRecord, view: ClusterView) -> list[str]:
    """What the checkpoints rest on and is not as it was when they were chosen."""
    now = basis_of(view)
    changed = {path for path, report in record.basis.items() if now.get(path) != report}
    running = {name: found.record.change for name, found in view.running_queries.items()}
    changed |= {
        # Its fragments know of a change that is not written as a whole yet.
        QUERIES.key(found.record.query).path
        for found in view.fragments.values()
        if _last_change(found.record) > running.get(found.record.query, 0)
    }
    gone = {each.fragment for each in record.pieces} - view.fragments.keys()
    return sorted(changed | gone)


def _last_change(fragment: FragmentRecord) -> int:
    """Number of the last change in place that a fragment knows of; 0: there was none."""
    known = [each.change for each in fragment.former]
    if fragment.restart is not None:
        known.append(fragment.restart.change)
    return max(known, default=0)


def _basic(
    record: SavepointRecord, folder: RecordFolder[R], found: Mapping[str, Versioned[R]]
) -> dict[str, R]:
    """The records of a folder that a savepoint rests on: others came after it was begun."""
    return {
        name: each.record
        for name, each in sorted(found.items())
        if folder.key(name).path in record.basis
    }


def _index(
    record: SavepointRecord,
    view: ClusterView,
    saved: tuple[SavedFragment, ...],
    now_us: int,
) -> SavepointIndex:
    for each in saved:
        found = view.fragments[each.fragment].record
        if found.generation != each.stored.generation:
            raise CheckpointRefused(f"{each.fragment} began anew while it was taken. Ask again")
    streams = _basic(record, STREAMS, view.streams)
    queries = _basic(record, QUERIES, view.queries)
    every = [found.record for _, found in sorted(view.fragments.items())]
    fragments = tuple(each for each in every if each.query in queries)
    running = tuple(
        found.record for name, found in sorted(view.running_streams.items()) if name in streams
    )
    numbers = {STREAMS.key(name).path: view.number_of(view.streams[name]) for name in streams}
    numbers |= {QUERIES.key(name).path: view.life_of(name) for name in queries}
    used = [*numbers.values()]
    used += [number for each in (*running, *every) for number in (each.epoch, each.generation)]
    return SavepointIndex(
        name=record.name,
        cluster=view.settings.name,
        cluster_id=view.settings.id,
        vivace=this_version().product,
        wire=WIRE_VERSION,
        asked_us=record.asked_us,
        at_us=now_us,
        settings=view.settings,
        streams=tuple(streams.values()),
        running_streams=running,
        queries=tuple(queries.values()),
        running_queries=tuple(_basic(record, RUNNING_QUERIES, view.running_queries).values()),
        fragments=fragments,
        numbers=numbers,
        greatest=max(used, default=0),
        saved=saved,
        left_out=record.left_out,
        journals={
            stream: copy
            for stream, copy in record.journals.items()
            if copy is not None and copy.end is not None
        },
    )
