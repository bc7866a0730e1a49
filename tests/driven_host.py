"""A host driven by hand, with its commands after each event; helpers of the tests of its core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from ha.messages import (
    Ack,
    Control,
    Data,
    Message,
    Snapshot,
    SnapshotRequest,
    Subscribe,
    Subscribed,
)
from ha.roles import ReplicaRole
from orchestrator.host.core.core import HostCore
from orchestrator.host.core.events import (
    AssignmentReceived,
    Command,
    Event,
    MessageArrived,
    Send,
)
from orchestrator.records import (
    Assignment,
    ClusterRecord,
    FragmentAssignment,
    Peer,
)
from streams.vectors.chunk import NO_WATERMARK, Chunk, Position
from tests.streams_of_numbers import numbers

T = TypeVar("T")

SETTINGS = ClusterRecord(name="c", delays_ms={})
COLUMNS = {"number": "int"}
STATEMENT = "REGISTER QUERY f RSTREAM(SELECT number FROM s [NOW] WHERE number >= 2);"
HOSTS = ("one", "two", "site", "exit")
MS = 1000


def peers(names: Sequence[str] = HOSTS, renewed: str = "") -> tuple[Peer, ...]:
    return tuple(
        Peer(
            node=name,
            incarnation="2" if name == renewed else "1",
            endpoint="",
            public_key="",
            delay_ms=0.0,
        )
        for name in names
    )


def assigned(
    role: str, *, epoch: int = 1, generation: int = 1, peer_replica: str | None
) -> FragmentAssignment:
    assert role in ("primary", "secondary")
    return FragmentAssignment(
        query="q",
        fragment="f",
        statement=STATEMENT,
        inputs={"s": COLUMNS},
        role="primary" if role == "primary" else "secondary",
        epoch=epoch,
        generation=generation,
        peer_replica=peer_replica,
        sub_deadline_ms=100.0,
        standby_lag_ms=100.0,
        readers_ms={"sink:f": 200.0},
        cost_us=20.0,
    )


def assignment_of(*fragments: FragmentAssignment, at: Sequence[Peer] = ()) -> Assignment:
    return Assignment(
        incarnation="1",
        fragments=fragments,
        producers={"s": ("site",)} if fragments else {},
        consumers={"f": ("exit",)} if fragments else {},
        peers=tuple(at) or peers(),
    )


class Driven:
    """A host, the time, and the commands since the last look."""

    def __init__(self, node: str, settings: ClusterRecord = SETTINGS) -> None:
        self.now_us = 1_000_000
        self.core = HostCore(node, settings, np.random.default_rng(1), self.now_us)
        self.commands: list[Command] = []

    def handle(self, event: Event) -> None:
        self.commands += self.core.handle(event, self.now_us)
        self.core.check_invariants()

    def hear(self, sender: str, message: Message) -> None:
        self.core.heard(sender, self.now_us)
        self.handle(MessageArrived(sender=sender, message=message))

    def assign(self, assignment: Assignment) -> None:
        self.handle(AssignmentReceived(assignment=assignment))

    def work(self) -> None:
        while (due_us := self.core.next_work_us) is not None:
            self.now_us = max(self.now_us, due_us)
            self.commands += self.core.work(self.now_us).commands
            self.core.check_invariants()

    def wait(self, ms: float, *, hearing: str | None = None) -> None:
        """Time passes, with a tick whenever one is due; another host may be heard all the time."""
        end_us = self.now_us + round(ms * MS)
        while self.core.next_tick_us <= end_us:
            self.now_us = max(self.now_us, self.core.next_tick_us)
            if hearing is not None:
                self.core.heard(hearing, self.now_us)
            self.commands += self.core.tick(self.now_us)
        self.now_us = end_us

    def take(self, kind: type[T]) -> list[T]:
        """Commands, or messages sent, of a kind; all others are dropped."""
        commands, self.commands = self.commands, []
        sent = [c.message for c in commands if isinstance(c, Send)]
        return [each for each in [*commands, *sent] if isinstance(each, kind)]

    def sent_to(self, node: str, kind: type[T]) -> list[T]:
        commands, self.commands = self.commands, []
        messages = [c.message for c in commands if isinstance(c, Send) and c.to == node]
        return [message for message in messages if isinstance(message, kind)]

    @property
    def role(self) -> ReplicaRole:
        return self.core.replica_manager.replicas["f"].replica.role

    @property
    def epoch(self) -> int:
        return self.core.replica_manager.replicas["f"].replica.epoch


def data(part: Chunk, stream: str = "s", epoch: int = 1) -> Data:
    return Data(stream=stream, epoch=epoch, generation=1, chunk=part)


def subscribed(
    next_seq: int = 0, watermark_ms: int = NO_WATERMARK, stream: str = "s", generation: int = 1
) -> Subscribed:
    return Subscribed(
        stream=stream,
        position=Position(next_seq=next_seq, watermark_ms=watermark_ms),
        epoch=1,
        generation=generation,
    )


def primary() -> Driven:
    """Primary of `f` on `one`, subscribed to `s`, with the sink at `exit` subscribed to it."""
    made = Driven("one")
    made.assign(assignment_of(assigned("primary", peer_replica="two")))
    made.hear("site", subscribed())
    made.hear("exit", Subscribe(stream="f", position=None, generation=None))
    return made


def standby() -> Driven:
    """Standby of `f` on `two`, bootstrapped from the primary above."""
    peer_replica = primary()
    made = Driven("two")
    made.assign(assignment_of(assigned("secondary", peer_replica="one")))
    made.hear("site", subscribed())
    assert made.sent_to("one", SnapshotRequest) == [SnapshotRequest(fragment="f")]
    peer_replica.commands.clear()
    peer_replica.hear("two", SnapshotRequest(fragment="f"))
    (snapshot,) = peer_replica.sent_to("two", Snapshot)
    made.hear("one", snapshot)
    assert made.role is ReplicaRole.STANDBY
    made.commands.clear()
    return made


def sent_numbers(host: Driven) -> list[int]:
    """Tuples sent to the sink."""
    return numbers([sent.chunk for sent in host.sent_to("exit", Data)])


def ack(watermark_ms: int, next_seq: int, epoch: int = 1, departs_ms: int | None = None) -> Control:
    position = Position(next_seq=next_seq, watermark_ms=watermark_ms)
    said = Ack(
        position=position, epoch=epoch, generation=1, furthest=position, departs_ms=departs_ms
    )
    return Control(acks={"f": said})
