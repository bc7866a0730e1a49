"""Reads snapshots in steps, before the host's core sees them.

Decoding an output log and restoring a state of hundreds of megabytes take seconds, in which a host
would send no heartbeat. The loop of a host therefore decodes the log, and restores the state into
an engine of its own, for a few milliseconds a turn. It then hands the core the snapshot with a
state that is adopted at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from ha.messages import Snapshot
from orchestrator.host.core.events import CheckpointRead, CheckpointUnreadable, MessageArrived
from streams.evaluate.engine import FragmentEngine, PreparedState
from streams.plan.program import Program
from streams.vectors.chunk import Chunk
from streams.vectors.state import SnapshotError


@dataclass(slots=True)
class _Preparation:
    sender: str
    snapshot: Snapshot
    engine: FragmentEngine
    unread: Iterable[Chunk]
    checkpoint: str | None = None
    log: list[Chunk] = field(default_factory=list[Chunk])

    def steps(self) -> Iterator[None]:
        for chunk in self.unread:
            self.log.append(chunk)
            yield
        self.snapshot = msgspec.structs.replace(self.snapshot, log=(*self.snapshot.log, *self.log))
        try:
            yield from self.engine.restoring(self.snapshot.state)
        except SnapshotError:
            # The core meets the damage again, and reports it.
            return
        prepared = PreparedState(self.snapshot.state, self.engine)
        self.snapshot = msgspec.structs.replace(self.snapshot, state=prepared)


class SnapshotPreparations:
    """The snapshots that are being read, one after the other."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[_Preparation, Iterator[None]]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def fragments(self) -> tuple[str, ...]:
        """Fragments whose states are being read."""
        return tuple(one.snapshot.fragment for one, _ in self._waiting)

    def add(
        self,
        sender: str,
        snapshot: Snapshot,
        program: Program,
        log: Iterable[Chunk] = (),
        checkpoint: str | None = None,
    ) -> None:
        """Read a snapshot; a second snapshot of the fragment meanwhile is dropped.

        Parameters
        ----------
        log
            The part of its output log that is yet to be decoded.
        checkpoint
            Name of the checkpoint that it comes from; None: another host has sent it.
        """
        if snapshot.fragment in self.fragments:
            return
        one = _Preparation(sender, snapshot, FragmentEngine(program), log, checkpoint)
        self._waiting.append((one, one.steps()))

    def step(
        self, has_time: Callable[[], bool] = lambda: False
    ) -> MessageArrived | CheckpointRead | CheckpointUnreadable | None:
        """Read a piece, and more while there is time; return the snapshot that this completes.

        Raises
        ------
        WireError
            A piece of the output log is damaged. The snapshot is dropped.
        """
        if not self._waiting:
            return None
        first, steps = self._waiting[0]
        try:
            next(steps)
            while has_time():
                next(steps)
        except StopIteration:
            self._waiting.popleft()
            snapshot, name = first.snapshot, first.checkpoint
            if name is None:
                return MessageArrived(sender=first.sender, message=snapshot)
            return CheckpointRead(fragment=snapshot.fragment, name=name, snapshot=snapshot)
        except Exception as error:
            self._waiting.popleft()
            if (name := first.checkpoint) is None:
                raise
            return CheckpointUnreadable(
                fragment=first.snapshot.fragment, name=name, why=f"is damaged: {error}"
            )
        return None
