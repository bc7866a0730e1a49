"""The report of a drill: its predicted blast radius, and its observer's measurements."""

from __future__ import annotations

from orchestrator.records.figures import MACHINE_SHARE
from orchestrator.results.result import Result

TIGHTEST = "the tightest recovery bound of the queries that are hit"
"""Why a drill's bound is what it is, unless it is a link's."""


class Blast(Result, frozen=True, kw_only=True):
    """What a drill hits.

    Attributes
    ----------
    nodes
        Nodes and sites whose hosts fail; none if only ZooKeeper does.
    links
        Links that are disturbed, `<source>:<target>`.
    primaries, secondaries
        Fragments whose replicas fail, `<query>.<fragment>`.
    streams
        Streams that enter at a site that fails.
    outputs
        Outputs that are watched: of all queries that are hit, or of all queries if none is.
    bound_ms
        How long an output may be silent.
    bound_why
        Why that, a phrase.
    planned_ms
        How long the recovery of the primaries that fail takes at most, by the plan and by how late
        hosts are; None if none fails, or one has no secondary.
    unprotected
        Fragments that another failure would harm until everything is restored.
    would_lose
        What would be lost, a phrase each. Such a drill is refused unless it is forced.
    """

    nodes: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    primaries: tuple[str, ...] = ()
    secondaries: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    bound_ms: float
    planned_ms: float | None = None
    unprotected: tuple[str, ...] = ()
    would_lose: tuple[str, ...] = ()
    bound_why: str = TIGHTEST

    @property
    def summary(self) -> str:
        """A line for people."""
        parts = {
            "nodes": self.nodes,
            "links": self.links,
            "primaries": self.primaries,
            "secondaries": self.secondaries,
            "streams": self.streams,
            "outputs": self.outputs,
            "unprotected meanwhile": self.unprotected,
        }
        told = [f"{what} {', '.join(names)}" for what, names in parts.items() if names]
        planned = "" if self.planned_ms is None else f", planned {self.planned_ms:.0f} ms"
        return "; ".join([*told, f"bound {self.bound_ms:g} ms{planned}"])


class ProcessorUse(Result, frozen=True, kw_only=True):
    """The use of all processors of this machine, % of their time.

    Attributes
    ----------
    used
        By any program, over the whole drill; what was stolen included.
    cluster
        By the cluster's processes and the drill itself.
    stolen
        By other machines on the same host.
    in_silence
        As `used`, while output was silent for longest; None: nothing was read then.
    """

    used: float
    cluster: float
    stolen: float
    in_silence: float | None

    @property
    def full(self) -> bool:
        """Whether processors were short all the time."""
        return self.used >= 100 * MACHINE_SHARE

    @property
    def short(self) -> bool:
        """Whether processors were short while output was silent."""
        return self.in_silence is not None and self.in_silence >= 100 * MACHINE_SHARE

    @property
    def summary(self) -> str:
        """A phrase for people."""
        others = max(self.used - self.cluster - self.stolen, 0.0)
        told = f"{self.used:.0f} % (the cluster {self.cluster:.0f} %, others {others:.0f} %"
        told += f", stolen {self.stolen:.0f} %)"
        if self.in_silence is None:
            return told
        return f"{told}, {self.in_silence:.0f} % while output was silent"


class Moment(Result, frozen=True, kw_only=True):
    """Something that happened, ms after the fault."""

    at_ms: float
    what: str


class Silence(Result, frozen=True, kw_only=True):
    """A time between two arrivals that ended so many ms after the fault."""

    ended_ms: float
    lasted_ms: float


class Timeline(Result, frozen=True, kw_only=True):
    """A drill as it went.

    Attributes
    ----------
    silences
        By output; of a link's drill also by where a sink received it.
    """

    bound_ms: float
    moments: tuple[Moment, ...]
    silences: dict[str, tuple[Silence, ...]]


class FailoverFigures(Result, frozen=True, kw_only=True):
    """One kill and its consequences; `docs/measurements.md` says how each figure is taken.

    Attributes
    ----------
    detection_ms
        From the kill until the slowest secondary noticed.
    recovery_ms
        From the kill to the end of the longest silence that began before the secondaries had
        noticed: output had resumed then. 0 if it never stopped. If hosts ended some time after the
        kill, the length of that silence.
    gap_ms
        The longest silence of an output within 5 s of the kill, whatever its cause: it includes
        the load of healing on a busy machine.
    bound_ms
        What recovery is held against.
    bound_why
        Why that bound, a phrase.
    gap_bound_ms
        What the longest silence is held against; None: nothing.
    gap_why
        Why that bound, or none.
    lost, repeated
        Tuples of all outputs, from their sequence numbers.
    redundancy_restored_s
        From the kill until every fragment was protected again, and the node had a new host.
    unprotected_s
        The longest time that a fragment had no warm secondary; None if the history tells of none.
    resumed_us
        When the silence ended that recovery tells of, cluster clock.
    processors
        What took this machine's processors meanwhile; None: that is not known.
    """

    killed_node: str
    detection_ms: float
    recovery_ms: float
    gap_ms: float
    bound_ms: float
    lost: int
    repeated: int
    completed_timestamps: int
    redundancy_restored_s: float
    unprotected_s: float | None = None
    resumed_us: int = 0
    processors: ProcessorUse | None = None
    bound_why: str = ""
    gap_bound_ms: float | None = None
    gap_why: str = ""

    @property
    def kept(self) -> str:
        """The promises that were kept, with the figures."""
        told = f"recovery {self.recovery_ms:.0f} ms of {self.bound_ms:.0f} ms"
        if self.gap_bound_ms is not None:
            told += f", longest silence {self.gap_ms:.0f} ms of {self.gap_bound_ms:.0f} ms"
        return f"nothing lost, nothing repeated, {told}"

    @property
    def machine_told(self) -> str | None:
        """Whether this machine may be why the bound was broken; None if it was not."""
        use = self.processors
        if self.recovery_ms <= self.bound_ms or use is None or use.in_silence is None:
            return None
        told = f"While output was silent, processors were used to {use.in_silence:.0f} %"
        if use.short:
            return f"{told}: the machine was too busy, and the bound may hold on a quieter one."
        return f"{told}: the machine had time, so it is not to blame."

    @property
    def failures(self) -> tuple[str, ...]:
        """Promises that were not kept, each in a phrase."""
        late = f"recovery took {self.recovery_ms:.0f} ms, the bound is {self.bound_ms:.0f} ms"
        checks = {
            f"{self.lost} tuples were lost": self.lost > 0,
            f"{self.repeated} tuples came twice": self.repeated > 0,
            late: self.recovery_ms > self.bound_ms,
        }
        return tuple(failure for failure, failed in checks.items() if failed)


class DrillReport(FailoverFigures, frozen=True, kw_only=True):
    """The consequences of a drill, as its observer measured them.

    Attributes
    ----------
    struck_us
        When it struck, on the clock of the cluster.
    fragments
        Those whose primary failed.
    causes
        How the secondaries noticed.
    outputs
        Watched streams.
    tuples
        Of all watched outputs, while the drill ran.
    blast
        Its blast radius, as known before it was run.
    compared
        Outputs whose archives were compared with the observer's tuples.
    differing
        Tuples that the observer and the archive have with different content.
    aborted
        Whether the fault was ended early, because an output was silent for too long.
    simulated
        Whether these are predictions of the simulated world.
    synthetic
        Streams whose input was made up for a prediction.
    predicted_ms
        The recovery that the simulated world had predicted; None: it was not asked.
    input_lost
        Input without results that no producer keeps, after a state was lost: a phrase for each
        fragment.
    remarks
        Deviations from the plan on which no promise depends.
    late_ms
        Average lateness of heartbeats in the last minute or so, of the host that was late most;
        None: unknown. Detection takes several times as much longer.
    timeline
        Silences of outputs, and events, with their times.
    """

    drill: str
    struck_us: int
    fragments: tuple[str, ...]
    causes: tuple[str, ...]
    outputs: tuple[str, ...]
    tuples: int
    blast: Blast
    compared: tuple[str, ...] = ()
    differing: int = 0
    aborted: bool = False
    input_lost: tuple[str, ...] = ()
    simulated: bool = False
    synthetic: tuple[str, ...] = ()
    predicted_ms: float | None = None
    remarks: tuple[str, ...] = ()
    late_ms: float | None = None
    timeline: Timeline | None = None

    @property
    def foretold(self) -> bool:
        """Whether the plan had said that the bound could not be kept."""
        return self.blast.planned_ms is not None and self.blast.planned_ms > self.bound_ms

    @property
    def failures(self) -> tuple[str, ...]:
        """Promises that were not kept, each in a phrase."""
        more = {
            f"{self.differing} tuples differ in the archive": self.differing > 0,
            "the fault was ended early, because an output was silent for too long": self.aborted,
        }
        lost = [f"input was lost: {each}" for each in self.input_lost]
        return (*super().failures, *(failure for failure, failed in more.items() if failed), *lost)
