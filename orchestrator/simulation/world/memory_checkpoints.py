"""The simulated folder of checkpoints: whole files in memory, some of which a power cut loses.

The format is the product's, and so is what a host makes of a file. A file takes its time to be
written and to be made safe; a host that dies before that leaves nothing behind.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

import msgspec

from orchestrator.checkpoints.checkpoint_file import CheckpointRefused, write
from orchestrator.checkpoints.savepoint import read_stored
from orchestrator.host.core.events import (
    CheckpointEvent,
    CheckpointFailed,
    CheckpointUnreadable,
    CheckpointWritten,
    ReadCheckpoint,
    WriteCheckpoint,
)
from orchestrator.host.shell.checkpoint_driver import FramesRead, frames_of, head_of
from orchestrator.host.shell.wire import encode_frames
from orchestrator.records import ClusterRecord

WRITES_US = 40_000
"""From the beginning of a file until it is safe."""

READS_US = 2_000
"""How long reading one takes mostly: less than until producers have responded."""

READS_APART = 4
"""Readers of one stream on a host go back one after the other, up to so many times as late."""


def _nothing() -> None:
    pass


class MemoryCheckpoints:
    """The folder of a simulated cluster.

    Parameters
    ----------
    settings
        The cluster's.
    at
        Calls something at a time of the world's clock.
    now_us
        That clock.

    Attributes
    ----------
    files
        Fragment and name → content, of all that is safe.
    saved
        Savepoint and name of a file → content.
    fails
        Why nothing can be written at present; None: everything can.
    asked
        How many were to be read.
    reads_us
        From the wish to read a file until it is read, at least.
    once_asked
        Called when the next file is to be read, once.
    counters
        How many files were written, read and refused.
    """

    def __init__(
        self,
        settings: ClusterRecord,
        at: Callable[[int, Callable[[], None]], None],
        now_us: Callable[[], int],
    ) -> None:
        self.settings = settings
        self.files: dict[tuple[str, str], bytes] = {}
        self.saved: dict[tuple[str, str], bytes] = {}
        self.fails: str | None = None
        self.counters: Counter[str] = Counter()
        self.asked, self.reads_us = 0, READS_US
        self.once_asked: Callable[[], None] = _nothing
        self._at, self._now_us = at, now_us

    def cut_off(self, newest: int) -> None:
        """Damage so many of the files that were written last."""
        for of in [*self.files][len(self.files) - newest :] if newest else ():
            self.files[of] = self.files[of][: len(self.files[of]) // 2]

    def driver(self, runs: Callable[[], bool], wake: Callable[[], None]) -> SimulatedCheckpoints:
        """What one process does with the folder."""
        return SimulatedCheckpoints(self, runs, wake)

    @property
    def folders(self) -> tuple[MemoryFolder, MemoryFolder]:
        """The files of checkpoints and those of savepoints, for a coordinator."""
        return MemoryFolder(self, self.files), MemoryFolder(self, self.saved)

    def later(self, after_us: int, action: Callable[[], None]) -> None:
        """Do something once a file has been written or read."""
        self._at(self._now_us() + after_us, action)


class MemoryFolder:
    """Files under keys, as `orchestrator.checkpoints.checkpoint_folder.CheckpointFolder` has them.

    Parameters
    ----------
    folder
        The cluster's, which may fail.
    files
        Key and name → content.
    """

    folder = "the simulated folder"

    def __init__(self, folder: MemoryCheckpoints, files: dict[tuple[str, str], bytes]) -> None:
        self._of, self._files = folder, files

    def read(self, key: str, name: str) -> bytes:
        """The content of a file; raises `CheckpointRefused`."""
        if (content := self._files.get((key, name))) is None:
            raise CheckpointRefused(f"is not in {self.folder}")
        return content

    def put(self, key: str, name: str, content: bytes) -> None:
        """Keep a file; raises `CheckpointRefused`."""
        if self._of.fails is not None:
            raise CheckpointRefused(self._of.fails)
        self._files[key, name] = content

    def remove(self, key: str, first: str) -> None:
        """Remove a file, then all others under its key."""
        self._files.pop((key, first), None)
        for of in [each for each in self._files if each[0] == key]:
            del self._files[of]


class MemorySavepoint:
    """The files of a simulated savepoint, as `orchestrator.checkpoints.savepoint` reads them."""

    def __init__(self, folder: MemoryCheckpoints, name: str) -> None:
        self.where, self._name = f"simulated savepoint {name}", name
        self._folder = folder.folders[1]

    def read(self, file: str) -> bytes:
        """The content of a file; raises `CheckpointRefused`."""
        return self._folder.read(self._name, file)


class SimulatedCheckpoints:
    """A `CheckpointDriver` of one life of one host.

    Parameters
    ----------
    folder
        The cluster's.
    runs
        Whether the process lives.
    wake
        Makes its loop take a turn.
    """

    def __init__(
        self, folder: MemoryCheckpoints, runs: Callable[[], bool], wake: Callable[[], None]
    ) -> None:
        self._folder, self._runs, self._wake = folder, runs, wake
        self._results: deque[CheckpointEvent | FramesRead] = deque()

    def write(self, command: WriteCheckpoint) -> None:
        """As `CheckpointDriver.write`: the pieces are made once the host has gone on."""
        self._folder.later(WRITES_US, lambda: self._write(command))

    def read(self, command: ReadCheckpoint) -> None:
        """As `CheckpointDriver.read`."""
        self._folder.asked += 1
        once_asked, self._folder.once_asked = self._folder.once_asked, _nothing
        once_asked()
        after_us = self._folder.reads_us * (1 + self._folder.asked % READS_APART)
        self._folder.later(after_us, lambda: self._read(command))

    def take(self) -> CheckpointEvent | FramesRead | None:
        """As `CheckpointDriver.take`."""
        return self._results.popleft() if self._results else None

    def _write(self, command: WriteCheckpoint) -> None:
        folder, stored = self._folder, command.stored
        if not self._runs():
            return
        if folder.fails is not None:
            folder.counters["refused"] += 1
            self._tell(CheckpointFailed(fragment=command.fragment, why=folder.fails))
            return
        pieces = encode_frames(command.snapshot)
        content = b"".join(write(head_of(command, folder.settings), pieces))
        folder.files[f"{command.query}.{command.fragment}", stored.name] = content
        folder.counters["written"] += 1
        kept = msgspec.structs.replace(stored, bytes=len(content))
        self._tell(CheckpointWritten(fragment=command.fragment, stored=kept))

    def _read(self, command: ReadCheckpoint) -> None:
        folder, fragment, name = self._folder, command.fragment, command.name
        if not self._runs():
            return
        try:
            content = read_stored(*folder.folders, f"{command.query}.{fragment}", name)
            frames = frames_of(command, content, folder.settings)
        except CheckpointRefused as refused:
            folder.counters["unreadable"] += 1
            self._tell(CheckpointUnreadable(fragment=fragment, name=name, why=str(refused)))
            return
        folder.counters["read"] += 1
        self._tell(FramesRead(fragment=fragment, name=name, frames=frames))

    def _tell(self, result: CheckpointEvent | FramesRead) -> None:
        self._results.append(result)
        self._wake()
