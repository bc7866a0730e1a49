"""Writes and reads a host's checkpoints beside its loop.

A folder may be slow, or not answer at all. So a thread of its own writes one checkpoint after the
other, and a second one reads: a replica that goes on from a checkpoint must not wait for others
that are being written. Encoding a state takes the interpreter from the loop for some milliseconds a
piece; the thread rests after each piece for several times as long.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Protocol

import msgspec

from orchestrator.checkpoints.checkpoint_file import CheckpointHead, CheckpointRefused, read, write
from orchestrator.checkpoints.checkpoint_folder import CheckpointFolder, FolderUnreachable
from orchestrator.checkpoints.savepoint import read_stored, savepoints_of
from orchestrator.edges.sources.driver import save_nowhere
from orchestrator.host.core.events import (
    CheckpointEvent,
    CheckpointFailed,
    CheckpointUnreadable,
    CheckpointWritten,
    ReadCheckpoint,
    WriteCheckpoint,
)
from orchestrator.host.shell.wire import encode_frames
from orchestrator.records import ClusterRecord, StateSpec
from orchestrator.records.versions import WIRE_VERSION, this_version

RESTS = 4
"""How many times as long as encoding a piece took, the thread rests before the next one."""

LONGEST_REST_S = 0.05

UNREACHABLE_S = 100.0
"""How long a checkpoint is asked for that its server does not give: without it, state is lost. Less
than the core waits for it (`orchestrator.host.core.checkpoints.READING_US`)."""

ASK_AGAIN_S = 1.0

NOWHERE = "cannot be kept or read: the cluster has no folder of checkpoints"

_log = logging.getLogger("vivace.host")


class FramesRead(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint was read, and its frames are yet to be decoded."""

    fragment: str
    name: str
    frames: list[bytes]


class CheckpointDriver(Protocol):
    """Writes and reads checkpoints. No method waits."""

    def write(self, command: WriteCheckpoint) -> None:
        """Have a checkpoint kept."""
        ...

    def read(self, command: ReadCheckpoint) -> None:
        """Have a checkpoint read."""
        ...

    def take(self) -> CheckpointEvent | FramesRead | None:
        """What has become of one of them, if it has not been told yet."""
        ...


def head_of(command: WriteCheckpoint, settings: ClusterRecord) -> CheckpointHead:
    """What a checkpoint is of."""
    return CheckpointHead(
        cluster=settings.name,
        cluster_id=settings.id,
        query=command.query,
        fragment=command.fragment,
        program=command.program,
        vivace=this_version().product,
        wire=WIRE_VERSION,
        stored=command.stored,
    )


def frames_of(command: ReadCheckpoint, content: bytes, settings: ClusterRecord) -> list[bytes]:
    """The frames of a checkpoint that a replica is to go on from.

    Raises
    ------
    CheckpointRefused
        It is damaged, or of another cluster, fragment or statement.
    """
    head, frames = read(content)
    if head.cluster_id != settings.id:
        raise CheckpointRefused(f"is of another cluster, {head.cluster} ({head.cluster_id})")
    if (head.query, head.fragment) != (command.query, command.fragment):
        raise CheckpointRefused(f"is of {head.query}.{head.fragment}")
    if head.program not in command.programs:
        raise CheckpointRefused("is of another statement")
    return frames


def saver(state: StateSpec | None) -> Callable[[str, str, bytes], None]:
    """Puts a file with a name into a savepoint with a name."""
    if state is None:
        return save_nowhere
    return savepoints_of(state.folder).put


class NoCheckpoints:
    """Where nothing can be kept."""

    def __init__(self) -> None:
        self._results: deque[CheckpointEvent] = deque()

    def write(self, command: WriteCheckpoint) -> None:
        """As `CheckpointDriver.write`."""
        self._results.append(CheckpointFailed(fragment=command.fragment, why=NOWHERE))

    def read(self, command: ReadCheckpoint) -> None:
        """As `CheckpointDriver.read`."""
        self._results.append(
            CheckpointUnreadable(fragment=command.fragment, name=command.name, why=NOWHERE)
        )

    def take(self) -> CheckpointEvent | None:
        """As `CheckpointDriver.take`."""
        return self._results.popleft() if self._results else None


class _Worker:
    """Does one thing after the other on a thread, which never keeps the process from ending."""

    def __init__(self, name: str) -> None:
        self._wanted: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._name, self._is_started = name, False

    def do(self, work: Callable[[], None]) -> None:
        """Have something done, once what was asked for before is."""
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        self._wanted.put(work)

    def _run(self) -> None:
        while True:
            self._wanted.get()()


class CheckpointThreads:
    """The checkpoints of one host, in the folder of its cluster.

    Parameters
    ----------
    settings
        The cluster's.
    wake
        Makes the host's loop take a turn; for any thread.
    """

    def __init__(self, settings: ClusterRecord, wake: Callable[[], None]) -> None:
        self._settings, self._wake = settings, wake
        state = settings.state
        self._folder = None if state is None else CheckpointFolder(state.folder)
        self._savepoints = None if state is None else savepoints_of(state.folder)
        self._results: deque[CheckpointEvent | FramesRead] = deque()
        self._writer, self._reader = _Worker("checkpoints"), _Worker("restoring")

    def write(self, command: WriteCheckpoint) -> None:
        """As `CheckpointDriver.write`."""
        self._writer.do(lambda: self._write(command))

    def read(self, command: ReadCheckpoint) -> None:
        """As `CheckpointDriver.read`."""
        self._reader.do(lambda: self._read(command))

    def take(self) -> CheckpointEvent | FramesRead | None:
        """As `CheckpointDriver.take`."""
        return self._results.popleft() if self._results else None

    def _tell(self, result: CheckpointEvent | FramesRead) -> None:
        self._results.append(result)
        self._wake()

    def _write(self, command: WriteCheckpoint) -> None:
        fragment, stored = command.fragment, command.stored
        try:
            if self._folder is None:
                raise CheckpointRefused(NOWHERE)
            pieces = _resting(encode_frames(command.snapshot))
            parts = write(head_of(command, self._settings), pieces)
            size = self._folder.write(f"{command.query}.{fragment}", stored.name, parts)
        except CheckpointRefused as refused:
            self._tell(CheckpointFailed(fragment=fragment, why=str(refused)))
        except Exception as error:  # noqa: BLE001  The thread goes on with the next one.
            _log.exception("checkpoint %s of %s", stored.name, fragment)
            self._tell(CheckpointFailed(fragment=fragment, why=f"cannot be written: {error!r}"))
        else:
            kept = msgspec.structs.replace(stored, bytes=size)
            self._tell(CheckpointWritten(fragment=fragment, stored=kept))

    def _read(self, command: ReadCheckpoint) -> None:
        fragment, name = command.fragment, command.name
        try:
            if self._folder is None or self._savepoints is None:
                raise CheckpointRefused(NOWHERE)
            folders = self._folder, self._savepoints
            content = _read_patiently(folders, f"{command.query}.{fragment}", name)
            frames = frames_of(command, content, self._settings)
        except CheckpointRefused as refused:
            self._tell(CheckpointUnreadable(fragment=fragment, name=name, why=str(refused)))
        except Exception as error:  # noqa: BLE001  The thread goes on with the next one.
            _log.exception("checkpoint %s of %s", name, fragment)
            why = f"cannot be read: {error!r}"
            self._tell(CheckpointUnreadable(fragment=fragment, name=name, why=why))
        else:
            self._tell(FramesRead(fragment=fragment, name=name, frames=frames))


def _read_patiently(
    folders: tuple[CheckpointFolder, CheckpointFolder], key: str, name: str
) -> bytes:
    """As `read_stored`, which is tried again while the folder's server is away."""
    until_s = time.monotonic() + UNREACHABLE_S
    while True:
        try:
            return read_stored(*folders, key, name)
        except FolderUnreachable as unreachable:
            if time.monotonic() >= until_s:
                raise
            _log.warning("checkpoint %s of %s %s", name, key, unreachable)
            time.sleep(ASK_AGAIN_S)


def _resting(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same pieces, each after a rest."""
    while True:
        began_s = time.thread_time()
        if (piece := next(pieces, None)) is None:
            return
        time.sleep(min(RESTS * (time.thread_time() - began_s), LONGEST_REST_S))
        yield piece
