"""How replicas of this host take part in a change of their statement.

A statement is changed at a cut, one event time for all fragments that change together, so that both
replicas of a fragment go on alike. The leader agrees on it with them:

1. The assignment names the former statement without its cut. Each replica says up to which event
   time it may evaluate by it, and evaluates nothing beyond (it *holds*). That lies ahead of where
   it is by as much as its event time passes in `AHEAD_US`, so it need not wait as long as the store
   responds within that time.
2. The leader takes the greatest of these times for the cut, and writes it. Nobody has evaluated
   anything beyond. From then on each replica changes by itself, in its own time, where its input
   has come to the cut.

A replica without a state evaluates nothing until the cut is known: the state that it gets meanwhile
may be of any time before. A primary that goes on from a checkpoint first hears from all readers
what they have: the cut must not lie before that. What the checkpoint says of them is older.
"""

from __future__ import annotations

from dataclasses import dataclass

from foundation.timestamps import timestamp_text
from ha.roles import ReplicaRole
from orchestrator.host.core.events import Outbox
from orchestrator.host.core.hosted_replica import Holding, HostedReplica
from orchestrator.host.core.replica_manager import ReplicaManager
from orchestrator.host.core.state_loss import StateLoss
from orchestrator.records import HoldingStatus
from streams.vectors.chunk import FOREVER_MS, NO_WATERMARK

AHEAD_US = 2_000_000
"""How long the store and the leader may take before a replica has to wait for the cut."""

MEASURES_US = 200_000
"""For how long a replica looks how fast its event time passes."""


@dataclass(frozen=True, slots=True)
class StatementChanges:
    """The changes of statements on one host.

    Attributes
    ----------
    replica_manager
        The replicas.
    state_loss
        Has inputs read again of which more columns are needed.
    outbox
        Takes reports.
    """

    replica_manager: ReplicaManager
    state_loss: StateLoss
    outbox: Outbox

    def on_assignment(self, now_us: int) -> None:
        """Begin to hold, and cease to, as assigned."""
        manager = self.replica_manager
        for fragment, stream in sorted(manager.widened):
            if (hosted := manager.replicas.get(fragment)) is not None:
                self.state_loss.read_input_anew(hosted, stream)
        manager.widened.clear()
        for hosted in manager.replicas.values():
            former = hosted.assignment.former
            change = former[-1].change if former and former[-1].until_ms is None else None
            if change is None:
                self._release(hosted)
            elif hosted.holding is None or hosted.holding.change != change:
                self._begin(hosted, change, now_us)

    def _release(self, hosted: HostedReplica) -> None:
        if hosted.holding is None:
            return
        hosted.holding = None
        hosted.replica.hold(None)
        former = hosted.assignment.former
        if former and (until_ms := former[-1].until_ms) is not None:
            detail = f"the former statement counts until {timestamp_text(until_ms)}"
            self.outbox.report("statement changes", hosted.assignment.fragment, detail)

    def _begin(self, hosted: HostedReplica, change: int, now_us: int) -> None:
        replica = hosted.replica
        status = HoldingStatus(change=change, until_ms=None)
        if replica.role is not ReplicaRole.WARMING:
            hosted.holding = Holding(change, now_us, replica.engine.evaluated_ms, None)
            return
        hosted.holding = Holding(change, now_us, NO_WATERMARK, status)
        replica.hold(NO_WATERMARK)

    def update(self, now_us: int) -> None:
        """Promise up to where to evaluate, once it is due."""
        for hosted in self.replica_manager.replicas.values():
            if (holding := hosted.holding) is None:
                continue
            replica, had_ms = hosted.replica, _had_ms(hosted)
            if holding.status is None:
                if now_us - holding.since_us >= MEASURES_US or had_ms is None:
                    self._promise(hosted, had_ms, now_us)
            elif holding.status.until_ms is None and had_ms is not None:
                # The state has come meanwhile. It may be older than what others have of the output.
                self._hold(hosted, max(replica.engine.evaluated_ms, had_ms))

    def _promise(self, hosted: HostedReplica, had_ms: int | None, now_us: int) -> None:
        """Hold from a while ahead on."""
        holding, replica = hosted.holding, hosted.replica
        assert holding is not None
        if had_ms is None:
            replica.hold(NO_WATERMARK)
            holding.status = HoldingStatus(change=holding.change, until_ms=None)
            return
        now_ms, former = replica.engine.evaluated_ms, hosted.assignment.former
        passed_ms = now_ms - holding.from_ms if holding.from_ms != NO_WATERMARK else 0
        took_us = max(now_us - holding.since_us, 1)
        ahead_ms = max(AHEAD_US // 1000, passed_ms * AHEAD_US // took_us)
        until_ms = now_ms if now_ms == NO_WATERMARK else min(now_ms + ahead_ms, FOREVER_MS - 1)
        before = [each.until_ms for each in former if each.until_ms is not None]
        self._hold(hosted, max([until_ms, had_ms, *before]))

    def _hold(self, hosted: HostedReplica, until_ms: int) -> None:
        holding = hosted.holding
        assert holding is not None
        hosted.replica.hold(until_ms)
        holding.status = HoldingStatus(change=holding.change, until_ms=until_ms)


def _had_ms(hosted: HostedReplica) -> int | None:
    """Up to where others may have the output of a replica; None: it has no state, or goes on from a
    checkpoint and has yet to hear that from its readers."""
    replica = hosted.replica
    if replica.role is ReplicaRole.WARMING:
        return None
    is_restored = replica.role is ReplicaRole.PRIMARY and hosted.assignment.restored
    return replica.readers_ms if is_restored else replica.known_ms
