"""Who may say what: checks every message of another host against this host's assignment.

The transport knows which host sent a message: its key is in the assignment's list of peers. That
alone must not let a host depose a primary or feed a stream that it does not produce. The assignment
says which host may send which message:

| message | accepted from |
| --- | --- |
| `Data`, `Subscribed`, `Contradiction`, an offer | a producer of the stream |
| `Subscribe`, with or without a request to be fed; an acknowledgement | a host that may read it |
| `Unsubscribe` | anybody: it ends the sender's own subscription only |
| an epoch, a digest, a primary's watermark | a host with another replica of the fragment |
| `SnapshotRequest`, `Snapshot`, `Checkpoint` | a host with another replica of the fragment |
| `Ping`, `Pong`, `Heartbeat`, the sender's own lag | any peer |

A message about a stream or a fragment that is not here has no effect, and passes. Everything else
is refused, counted by kind and reported. A host may still harm the fragments and streams that it
is assigned: its output is believed.

A new consumer or secondary may ask before this host has heard that it may, because each host learns
its assignment for itself. Such requests wait for the next assignments, for `EARLY_US`.

An epoch may be ahead of the one known here by `MAX_EPOCH_LEAP` at most. Epochs rise by one at each
takeover, so a greater one is false, and would leave no room for true ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from ha.messages import (
    Ack,
    Checkpoint,
    Contradiction,
    Control,
    Data,
    Message,
    Offer,
    Snapshot,
    SnapshotRequest,
    Subscribe,
    Subscribed,
)
from orchestrator.host.core.events import Outbox
from orchestrator.host.core.replica_manager import ReplicaManager
from orchestrator.records import Assignment

T = TypeVar("T")

EARLY_US = 1_000_000
"""How long a request waits for an assignment that allows it. Assignments that are written together
arrive within some milliseconds of each other."""

MOST_EARLY = 256
"""Most requests that wait. Further ones are refused, and their senders ask again."""

MAX_EPOCH_LEAP = 2**16
"""Takeovers of a fragment that a host may have missed."""

Request = Subscribe | SnapshotRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Early:
    """A request that waits for an assignment that allows it."""

    sender: str
    request: Request
    since_us: int


class AccessControl:
    """Decides which messages of other hosts a host acts on.

    Parameters
    ----------
    manager
        The replicas, sources and sinks of this host.
    outbox
        Takes reports, and counts refusals as `<kind>_refused`.
    """

    def __init__(self, manager: ReplicaManager, outbox: Outbox) -> None:
        self._manager = manager
        self._outbox = outbox
        self._producers: Mapping[str, tuple[str, ...]] = {}
        self._consumers: Mapping[str, tuple[str, ...]] = {}
        self._early: dict[tuple[str, type[Request], str], Early] = {}
        self._reported: set[tuple[str, str]] = set()

    def use(self, assignment: Assignment) -> list[tuple[str, Request]]:
        """Judge by this assignment from now on; returns the waiting requests that it allows."""
        self._producers, self._consumers = assignment.producers, assignment.consumers
        self._reported.clear()
        allowed = {key: each for key, each in self._early.items() if self._may_ask(each)}
        for key in allowed:
            del self._early[key]
        return [(each.sender, each.request) for each in allowed.values()]

    def expire(self, now_us: int) -> None:
        """Refuse the requests that no assignment has allowed in time."""
        for key, each in list(self._early.items()):
            if now_us - each.since_us > EARLY_US:
                del self._early[key]
                self._refuse_request(each)

    def admit(self, sender: str, message: Message, now_us: int) -> Message | None:
        """The message, without what its sender may not say; None if nothing is left."""
        if sender == self._manager.node:
            return message
        match message:
            case Data(stream=stream):
                return message if self._produces(sender, stream, "data") else None
            case Subscribed(stream=stream) | Contradiction(stream=stream):
                return message if self._produces(sender, stream, "responses") else None
            case Control():
                return self._admit_control(sender, message)
            case Snapshot() | Checkpoint():
                return message if self._admits_snapshot(sender, message) else None
            case Subscribe() | SnapshotRequest():
                each = Early(sender=sender, request=message, since_us=now_us)
                if self._may_ask(each):
                    return message
                self._keep(each)
                return None
            case _:
                return message

    def _produces(self, sender: str, stream: str, kind: str) -> bool:
        producers = self._producers.get(stream)
        if producers is None or sender in producers:
            return True
        return self._refuse(sender, kind, stream)

    def _reads(self, sender: str, stream: str) -> bool:
        """Whether a host may read a stream, if this host produces it at all."""
        if sender in self._consumers.get(stream, ()):
            return True
        return stream not in self._manager.sources and stream not in self._manager.replicas

    def _is_peer_replica(self, sender: str, fragment: str) -> bool:
        """Whether a host has another replica of a fragment, or of a source, if this host has one
        at all."""
        if (source := self._manager.sources.get(fragment)) is not None:
            return source.peer_replica in (None, sender)
        hosted = self._manager.replicas.get(fragment)
        return hosted is None or sender in hosted.assignment.others

    def _plausible(self, fragment: str, epoch: int) -> bool:
        """Whether a fragment can have come to an epoch since this host has last heard of it."""
        if (source := self._manager.sources.get(fragment)) is not None:
            return source.peer_replica is None or epoch <= source.epoch + MAX_EPOCH_LEAP
        hosted = self._manager.replicas.get(fragment)
        return hosted is None or epoch <= hosted.replica.epoch + MAX_EPOCH_LEAP

    def _admits_snapshot(self, sender: str, snapshot: Snapshot | Checkpoint) -> bool:
        fragment = snapshot.fragment
        # Generations are named after the epochs in which they begin.
        newest = max(snapshot.epoch, snapshot.generation)
        if self._is_peer_replica(sender, fragment) and self._plausible(fragment, newest):
            return True
        return self._refuse(sender, "snapshots", fragment)

    def _admit_control(self, sender: str, message: Control) -> Control:
        def of_peer_replica(fragment: str, _: object) -> bool:
            return self._is_peer_replica(sender, fragment)

        def epoch_allowed(fragment: str, epoch: int) -> bool:
            return self._is_peer_replica(sender, fragment) and self._plausible(fragment, epoch)

        def ack_allowed(stream: str, ack: Ack) -> bool:
            return self._reads(sender, stream) and self._plausible(stream, ack.epoch)

        def offer_allowed(stream: str, _: Offer) -> bool:
            return sender in self._producers.get(stream, (sender,))

        refused = (
            *self._refused(sender, "epochs", message.epochs, epoch_allowed),
            *self._refused(sender, "watermarks", message.watermarks_ms, of_peer_replica),
            *self._refused(sender, "digests", message.digests, of_peer_replica),
            *self._refused(sender, "acks", message.acks, ack_allowed),
            *self._refused(sender, "offers", message.offers, offer_allowed),
            *self._refused(sender, "checkpoints", message.checkpoints, of_peer_replica),
            *self._refused(sender, "standbys", message.standbys, of_peer_replica),
            *self._refused(sender, "stalled", message.stalled, epoch_allowed),
        )
        if not refused:
            return message
        return msgspec.structs.replace(
            message,
            epochs=_without("epochs", message.epochs, refused),
            watermarks_ms=_without("watermarks", message.watermarks_ms, refused),
            digests=_without("digests", message.digests, refused),
            acks=_without("acks", message.acks, refused),
            offers=_without("offers", message.offers, refused),
            checkpoints=_without("checkpoints", message.checkpoints, refused),
            standbys=_without("standbys", message.standbys, refused),
            stalled=_without("stalled", message.stalled, refused),
        )

    def _refused(
        self, sender: str, kind: str, told: dict[str, T], allowed: Callable[[str, T], bool]
    ) -> list[tuple[str, str]]:
        """The kind and name of each entry of a control message that the sender may not say."""
        if not told:
            return []
        refused = [name for name, each in told.items() if not allowed(name, each)]
        for name in refused:
            self._refuse(sender, kind, name)
        return [(kind, name) for name in refused]

    def _may_ask(self, each: Early) -> bool:
        match each.request:
            case Subscribe(stream=stream):
                return self._reads(each.sender, stream)
            case SnapshotRequest(fragment=fragment):
                return self._is_peer_replica(each.sender, fragment)

    def _keep(self, each: Early) -> None:
        key = each.sender, type(each.request), _subject(each.request)
        if (before := self._early.get(key)) is not None:
            # Its time runs from the first request.
            each = replace(each, since_us=before.since_us)
        elif len(self._early) >= MOST_EARLY:
            self._refuse_request(each)
            return
        self._early[key] = each

    def _refuse_request(self, each: Early) -> None:
        kind = "subscribes" if isinstance(each.request, Subscribe) else "snapshot_requests"
        self._refuse(each.sender, kind, _subject(each.request))

    def _refuse(self, sender: str, kind: str, name: str) -> bool:
        """Count a refusal, and report the first of its kind from a host; returns False."""
        self._outbox.counters[f"{kind}_refused"] += 1
        if (sender, kind) not in self._reported:
            self._reported.add((sender, kind))
            # The name is the sender's: quoted, it cannot break the log's lines.
            self._outbox.report(
                f"{kind} refused", f"host {sender}", f"it may send none for {name!r}"
            )
        return False


def _without(kind: str, told: dict[str, T], refused: Collection[tuple[str, str]]) -> dict[str, T]:
    return {name: each for name, each in told.items() if (kind, name) not in refused}


def _subject(request: Request) -> str:
    return request.stream if isinstance(request, Subscribe) else request.fragment
