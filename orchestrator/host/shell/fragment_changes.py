"""What a host writes into a fragment's record: takeovers by its replicas, and lost secondaries.

Both are noticed by the data plane and recorded later, at worst long after the fact, if the store
was away. The record may have changed meanwhile. `revised` says what becomes of it:

- A change of an older epoch than the record's is void. The host's replica is told the newer epoch.
- The loss of a replica that a plan has made primary meanwhile is void, and nobody steps down for a
  lost replica: the host that lost it takes over once it hears of the plan.
- A takeover of a newer epoch is written if the record lists the replica. The primary that the
  record names is lost only if the takeover was from its node.
- A takeover in the epoch in which the record already names the replica as primary, because the
  leader had just named it, tells no more than that the former primary is lost.
- A replica that the record does not list was given up: by its peer replica, whose takeover or
  report of a loss came first, or by the coordinator. If its peer replica gave it up, the two may
  only have lost their link, and have followed each other as primary. Its takeover is still written
  if nobody has taken its place, or if the primary that the record names has left the epoch to it.
  In any other case it may lack input, and steps down. It keeps its state until the coordinator,
  which hears of it, has decided whether it is needed (`orchestrator.control.decide.healing`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from orchestrator.host.core.events import EpochSuperseded, RecordLoss, RecordTakeover
from orchestrator.records import FragmentRecord, ReplicaId, ReplicaLoss, TakeOver

KEPT_LOSSES = 16
"""Losses that a record remembers: far more than happen before the coordinator drops them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentChange:
    """A takeover, or the loss of a secondary, that a host has to record.

    Attributes
    ----------
    by
        The host's replica.
    lost
        The peer replica, in the incarnation that the host knew.
    report
        The lost host's report that stands in the store, if one does.
    """

    event: RecordTakeover | RecordLoss
    by: ReplicaId
    lost: ReplicaId
    report: tuple[int, int] | None = None

    @property
    def loss(self) -> ReplicaLoss:
        """The loss, for the record."""
        event = self.event
        return ReplicaLoss(
            replica=self.lost,
            cause=event.cause,
            detected_at_us=event.detected_at_us,
            report=self.report,
        )


def revised(
    record: FragmentRecord, change: FragmentChange, yielded: Callable[[], bool]
) -> FragmentRecord | EpochSuperseded | None:
    """The record with the change in it, or what the host must be told, or nothing.

    Parameters
    ----------
    yielded
        Whether the primary that the record names no longer acts as one in an epoch before that of
        the change.
    """
    event, me = change.event, change.by
    if isinstance(event, RecordLoss) and _is_promoted(record, change):
        return None
    if record.primary != me and (
        record.epoch > event.epoch
        or (record.epoch == event.epoch and isinstance(event, RecordTakeover))
    ):
        return EpochSuperseded(
            fragment=event.fragment, epoch=record.epoch, primary=record.primary.node
        )
    if (record.epoch, record.primary, record.secondary) == (event.epoch, me, change.lost):
        return msgspec.structs.replace(
            record, secondary=None, losses=_with_losses(record, change.loss)
        )
    if isinstance(event, RecordLoss) or record.epoch >= event.epoch:
        return None
    if me not in record.replicas:
        given_up = me in [loss.replica for loss in record.losses]
        if not given_up or not (record.secondary is None or yielded()):
            return EpochSuperseded(
                fragment=event.fragment, epoch=event.epoch, primary=record.primary.node
            )
    previous = change.lost if record.primary == me else record.primary
    lost = (previous,) if change.lost.node == previous.node else _named(record, change.lost.node)
    gone = (me, change.lost)
    third = record.third
    return msgspec.structs.replace(
        record,
        epoch=event.epoch,
        primary=me,
        secondary=None if record.secondary in gone else record.secondary,
        third=None if third is not None and third.replica in gone else third,
        took_over=TakeOver(
            previous=previous, cause=event.cause, detected_at_us=event.detected_at_us
        ),
        losses=_with_losses(
            record, *(msgspec.structs.replace(change.loss, replica=each) for each in lost), but=me
        ),
    )


def _is_promoted(record: FragmentRecord, change: FragmentChange) -> bool:
    """Whether a plan has made the lost replica primary, and still lists the one that lost it."""
    planned = record.took_over is None and record.epoch > change.event.epoch
    return planned and record.primary == change.lost and change.by in record.replicas


def _named(record: FragmentRecord, node: str) -> tuple[ReplicaId, ...]:
    """The replicas on a node that a record lists."""
    return tuple(each for each in record.replicas if each.node == node)


def _with_losses(
    record: FragmentRecord, *losses: ReplicaLoss, but: ReplicaId | None = None
) -> tuple[ReplicaLoss, ...]:
    """The record's losses with further ones, without those of a replica that is back."""
    kept = [each for each in record.losses if each.replica != but]
    return (*kept, *losses)[-KEPT_LOSSES:]
