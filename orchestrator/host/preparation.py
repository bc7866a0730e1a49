"""Reads the states of snapshots in steps, before the host's core sees the snapshots.

Restoring a state of hundreds of megabytes takes seconds, in which a host would send no heartbeat.
The loop of the real host therefore restores it into an engine of its own, a few milliseconds a
turn, and then hands the core the snapshot with a state that is adopted at once.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ha.messages import Snapshot
from orchestrator.host.events import MessageArrived
from streams.engine import FragmentEngine, PreparedState
from streams.program import Program
from streams.state import SnapshotError

STEPS_PER_TURN = 2
"""Pieces read in a turn: a few milliseconds."""


@dataclass(frozen=True, slots=True)
class _Preparation:
    sender: str
    snapshot: Snapshot
    engine: FragmentEngine
    steps: Iterator[None]


class SnapshotPreparations:
    """The snapshots whose states are being read, one after the other.

    Parameters
    ----------
    alone
        Whether this is the only host of its process, so that the process's garbage collector may
        rest meanwhile.
    """

    def __init__(self, *, alone: bool = True) -> None:
        self._alone = alone
        self._waiting: deque[_Preparation] = deque()

    @property
    def fragments(self) -> tuple[str, ...]:
        """Fragments whose states are being read; `step` has something to do if there are any."""
        return tuple(one.snapshot.fragment for one in self._waiting)

    def add(self, sender: str, snapshot: Snapshot, program: Program) -> None:
        """Read a snapshot's state; a second snapshot of the fragment meanwhile is dropped."""
        if snapshot.fragment in self.fragments:
            return
        if not self._waiting and self._alone:
            # Each full collection would visit all objects of the states once more.
            gc.disable()
        engine = FragmentEngine(program)
        steps = engine.restoring(snapshot.state)
        self._waiting.append(_Preparation(sender, snapshot, engine, steps))

    def step(self) -> MessageArrived | None:
        """Read a few pieces; return the snapshot that they complete."""
        if not self._waiting:
            return None
        first = self._waiting[0]
        snapshot = first.snapshot
        try:
            for _ in range(STEPS_PER_TURN):
                next(first.steps)
        except StopIteration:
            snapshot = replace(snapshot, state=PreparedState(snapshot.state, first.engine))
        except SnapshotError:
            # The core meets the damage again, and reports it.
            pass
        else:
            return None
        self._waiting.popleft()
        if not self._waiting and self._alone:
            gc.freeze()
            gc.enable()
        return MessageArrived(sender=first.sender, message=snapshot)
