"""The faults and observers that a schedule may contain, as records: they replay from JSON.

Times count from the moment the streams begin. A *target* is a node, or a role such as
`primary:pairs`: the node that has this role when the fault strikes. A fault whose target does not
exist then does nothing.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from orchestrator.simulation.world.links import Fate


class Fault(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """Base of all faults.

    Attributes
    ----------
    at_ms
        When it strikes.
    for_ms
        How long it lasts, or until what it ended is started again.
    """

    at_ms: int
    for_ms: int

    @property
    def ends_ms(self) -> int:
        """When its cause is over."""
        return self.at_ms + self.for_ms

    @property
    def targets(self) -> tuple[str, ...]:
        """The nodes or roles that it names."""
        return ()


class Struck(Fault, frozen=True, kw_only=True):
    """Base of faults of one host."""

    target: str

    @property
    def targets(self) -> tuple[str, ...]:
        """The host."""
        return (self.target,)


class Crash(Struck, frozen=True, kw_only=True, tag="crash"):
    """A host dies as by SIGKILL, and is started again after a time.

    Attributes
    ----------
    after_writes
        The host dies when it is about to do the write after so many to the store; None: at once.
    """

    after_writes: int | None = None


class Pause(Struck, frozen=True, kw_only=True, tag="pause"):
    """A host is stopped as by SIGSTOP, and goes on after a time.

    Attributes
    ----------
    replaced
        Whether another process takes the node's place while the first is stopped.
    """

    replaced: bool = False


class StoreCut(Struck, frozen=True, kw_only=True, tag="store-cut"):
    """One host cannot reach the store."""


class Slow(Struck, frozen=True, kw_only=True, tag="slow"):
    """Evaluation takes longer on a host."""

    factor: float


class Restart(Enum):
    """What is started again."""

    NOTHING = "nothing"
    PROCESS = "process"
    MACHINE = "machine"


class Disk(Struck, frozen=True, kw_only=True, tag="disk"):
    """A site's disk is full: its sinks keep nothing for good."""


class Clock(Struck, frozen=True, kw_only=True, tag="clock"):
    """The wall clock of a host's machine is set, and its clocks run fast or slow for a while.

    Attributes
    ----------
    restart
        Only processes that start afterwards see that the clock was set: the host may die when it
        is, and be started again after `for_ms`, on a machine that was booted or not.
    """

    step_ms: float
    drift_ppm: float
    restart: Restart = Restart.NOTHING


class CoordinatorCrash(Fault, frozen=True, kw_only=True, tag="coordinator"):
    """The leading coordinator dies, and another is started after a time.

    Attributes
    ----------
    after_writes
        It dies between two writes of one decision, after so many; None: at once.
    """

    after_writes: int | None = None


class StoreAway(Fault, frozen=True, kw_only=True, tag="store"):
    """The store does not answer.

    Attributes
    ----------
    stopped
        Whether its server was stopped. It ends all sessions when it goes on, before it hears any
        client; one that was started again gives every session time anew.
    """

    stopped: bool = False


class Everything(Fault, frozen=True, kw_only=True, tag="everything"):
    """All hosts and coordinators die at once, as by a power cut, and start again one by one.

    What was being written into the folder of checkpoints is lost.

    Attributes
    ----------
    apart_ms
        Between the starts of two hosts.
    damaged
        How many of the newest checkpoints are cut off.
    store
        Whether the store is away until the first host starts.
    reads_ms
        How long it takes to read a checkpoint from then on; 0: as before.
    still_ms
        For how long all sites stand still, as on a busy machine, once one is to be read.
    """

    apart_ms: int = 0
    damaged: int = 0
    store: bool = False
    reads_ms: int = 0
    still_ms: int = 0


class SavepointWanted(Fault, frozen=True, kw_only=True, tag="savepoint"):
    """Somebody wants a savepoint, and something is against it.

    Attributes
    ----------
    leader_writes
        The leader dies when it is about to do the write after so many to the store, and another
        one stands for election at the end; None: it lives.
    crashes
        A host that dies at once, if it is there; empty: none does.
    damaged
        Whether one of the checkpoints is damaged that have yet to be copied.
    full_ms
        For how long the folder takes nothing, from the first copy on.
    deletes
        Whether it is deleted at the end.
    """

    leader_writes: int | None = None
    crashes: str = ""
    damaged: bool = False
    full_ms: int = 0
    deletes: bool = False

    @property
    def name(self) -> str:
        """Of the savepoint."""
        return f"at-{self.at_ms}"


class QueryPaused(Fault, frozen=True, kw_only=True, tag="query-pause"):
    """Somebody has a query pause, and go on at the end.

    Attributes
    ----------
    query
        Its name. If it cannot pause, another one that can takes its place.
    leader_writes
        The leader dies when it is about to do the write after so many to the store, and another
        one stands for election at once; None: it lives.
    resuming
        Whether it does so when the query is to go on, instead of when it is to pause.
    """

    query: str
    leader_writes: int | None = None
    resuming: bool = False


class Linked(Fault, frozen=True, kw_only=True):
    """Base of faults of a link.

    Attributes
    ----------
    here, there
        The hosts; messages from the first to the second are hit.
    both_ways
        Whether the other direction is hit too.
    """

    here: str
    there: str
    both_ways: bool = True

    @property
    def targets(self) -> tuple[str, ...]:
        """Both ends."""
        return (self.here, self.there)


class LinkCut(Linked, frozen=True, kw_only=True, tag="cut"):
    """Nothing passes a link.

    Attributes
    ----------
    notice
        Whether the senders are told that the connection is lost.
    holds
        Whether messages are delivered once the link is mended, instead of being lost.
    """

    notice: bool = True
    holds: bool = False


class Delay(Linked, frozen=True, kw_only=True, tag="delay"):
    """A link is slower for a while."""

    extra_ms: float


class Break(Linked, frozen=True, kw_only=True, tag="connection"):
    """A connection breaks and is made again at once.

    Attributes
    ----------
    notice
        Whether the sender is told.
    fate
        What becomes of messages under way; `for_ms` later, if they are late.
    """

    notice: bool = True
    fate: Fate = Fate.LOST


AnyFault = (
    Crash
    | Pause
    | StoreCut
    | Slow
    | Disk
    | Clock
    | CoordinatorCrash
    | StoreAway
    | Everything
    | SavepointWanted
    | QueryPaused
    | LinkCut
    | Delay
    | Break
)


class Observe(msgspec.Struct, frozen=True, kw_only=True):
    """An observer, such as `vivace tail`, reads streams for a while.

    Attributes
    ----------
    name
        Of its node.
    region
        It observes from there.
    at_ms, until_ms
        When it comes, and when it goes; None: it stays.
    orderly
        Whether it leaves in order, instead of being killed.
    """

    name: str
    streams: tuple[str, ...]
    region: str
    at_ms: int
    until_ms: int | None
    orderly: bool


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """The setting's visitor is applied, and deleted later; None: it stays."""

    at_ms: int
    until_ms: int | None


def event_text(event: msgspec.Struct) -> str:
    """A fault or an operation in a line, without its time."""
    fields = msgspec.to_builtins(event)
    kind = fields.pop("kind")
    del fields["at_ms"]
    return " ".join([kind, *(f"{name}={value}" for name, value in fields.items())])
