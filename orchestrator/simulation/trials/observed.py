"""What a trial notes for the checks and the transcript."""

from __future__ import annotations

from dataclasses import dataclass, field

from orchestrator.edges.events import Deliver
from orchestrator.records import MemoryStatus, ReplicaId
from orchestrator.simulation.trials.schedule import Schedule
from orchestrator.simulation.trials.setting import Setting
from orchestrator.simulation.world.world import World
from streams.vectors.chunk import Chunk


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a transcript."""

    at_us: int
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class Arrival:
    """A delivery, and when it arrived on the world's clock."""

    at_us: int
    node: str
    delivery: Deliver


@dataclass(frozen=True, slots=True)
class PausedSpan:
    """Outputs of a paused query, from when nothing of it ran until it was to go on."""

    streams: tuple[str, ...]
    since_us: int
    until_us: int


@dataclass(slots=True)
class Observed:
    """All that the checks look at.

    Attributes
    ----------
    began_us, ended_us
        When the streams began, and when the trial was over.
    broken
        Errors that would have ended a host's process, a sentence each.
    accepted
        Fragment, epoch → primaries that the store has listed under it.
    exposed_us
        Fragment → when a fault first took its last warm replica.
    entered
        Stream → what its site has numbered, in order; only of streams whose content depends on
        what happens.
    shed
        Stream → how many tuples its site's processes say that they have shed.
    overdue
        Stream → how many they say that they have dropped, because they were overdue.
    anew_us
        Stream → when it first began anew.
    struck
        Nodes that faults hit, as they were resolved.
    watched
        Observer, stream → what it has received.
    visited
        Stream of the visitor → what its sink has received.
    visits
        Whether the visitor is there.
    over_budget
        Node → its queues when they first took more than their budget.
    stuck
        What did not come about in time.
    kept
        Fragments of which a checkpoint was listed when everything died last; None: it never did.
    together
        Fragments whose replicas may die together at the end, though others may be apart.
    silences
        When queries were paused.
    elsewhere
        What was not as promised of savepoints, and of the clusters that went on from them.
    """

    setting: Setting
    schedule: Schedule
    world: World
    arrivals: dict[str, list[Arrival]]
    began_us: int = 0
    ended_us: int = 0
    broken: list[str] = field(default_factory=list[str])
    accepted: dict[tuple[str, int], set[ReplicaId]] = field(
        default_factory=dict[tuple[str, int], set[ReplicaId]]
    )
    exposed_us: dict[str, int] = field(default_factory=dict[str, int])
    entered: dict[str, list[Chunk]] = field(default_factory=dict[str, list[Chunk]])
    shed: dict[str, int] = field(default_factory=dict[str, int])
    overdue: dict[str, int] = field(default_factory=dict[str, int])
    anew_us: dict[str, int] = field(default_factory=dict[str, int])
    struck: dict[str, int] = field(default_factory=dict[str, int])
    watched: dict[tuple[str, str], list[Arrival]] = field(
        default_factory=dict[tuple[str, str], list[Arrival]]
    )
    visited: dict[str, list[Arrival]] = field(default_factory=dict[str, list[Arrival]])
    visits: bool = False
    over_budget: dict[str, MemoryStatus] = field(default_factory=dict[str, MemoryStatus])
    stuck: list[str] = field(default_factory=list[str])
    entries: list[Entry] = field(default_factory=list[Entry])
    healed: bool = False
    kept: set[str] | None = None
    together: list[str] = field(default_factory=list[str])
    silences: list[PausedSpan] = field(default_factory=list[PausedSpan])
    elsewhere: list[str] = field(default_factory=list[str])

    @property
    def running(self) -> set[str]:
        """Fragments that run at present."""
        visiting = self.setting.visiting if self.visits else {}
        return self.setting.programs.keys() | visiting.keys()

    def note(self, subject: str, text: str) -> None:
        """Add a line to the transcript."""
        self.entries.append(Entry(self.world.now_us, subject, text))
