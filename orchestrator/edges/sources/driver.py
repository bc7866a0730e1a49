"""The protocol of a source driver, which brings a stream in.

A driver decides nothing by itself. The host's loop asks an open source when it will next have
tuples, and for all tuples that are due by now. The loop passes the time. A source emits tuples
together with watermarks: promises that no earlier timestamp follows. The host numbers the tuples,
keeps them until every subscriber has processed them, and sends them.

A *paced* source, such as a recording, has a time axis of its own, which begins when the stream
starts. A *live* source takes tuples from clients, on threads of its own
(`orchestrator.edges.sources.live.ingestion`). It wakes the loop when it has some.

There is one open source a stream. Its site may be killed and started again. A source is *resumable*
if it can then continue: its content is numbered alike by every process that reads it, and can be
read again from any position. A recording is resumable, and so is a live source that keeps a journal
(`orchestrator.edges.sources.live.journal`). Tuples of any other source begin anew, with a new
generation of numbers, when its site starts again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from orchestrator.edges.drivers import Driver, DriverError
from orchestrator.edges.events import SourceEmitted
from orchestrator.edges.sources.live.refused import SideStreams
from orchestrator.edges.sources.live.waiting_tuples import MOST_WAITING_BYTES
from orchestrator.records import Guarantee, InputStatus, SourceAssignment
from streams.vectors.chunk import Position

if TYPE_CHECKING:
    from orchestrator.edges.site_check import SiteCheck

BUFFER_BYTES = 8 * 2**20
"""Input that a live source holds in memory, unless its host has less for it."""


def _no_clock() -> int:
    return 0


def nobody_else() -> None:
    """The place belongs to one process only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFiles:
    """Files from which a stream can be read again.

    Attributes
    ----------
    begin, end
        From where to where.
    files
        Name and content of each, read when it is asked for.
    """

    begin: Position
    end: Position
    files: Iterator[tuple[str, bytes]]


def save_nowhere(_savepoint: str, _file: str, _content: bytes) -> None:
    """There is no folder of savepoints."""
    raise DriverError("the cluster has no folder of savepoints")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceContext:
    """The place where a source is opened.

    Attributes
    ----------
    folder
        For sources that keep files; None where nothing may be kept. Sites of one machine may share
        it.
    site
        The site's name.
    clock_us
        The cluster's clock, for any thread.
    wake
        Makes the host's loop ask again when its sources are due; for any thread.
    buffer_bytes
        Memory that input may take until the host has numbered it.
    waiting_bytes
        Bytes that input may take, most of it in files, until its timestamps are complete.
    check_claim
        Raises an error if another process has replaced this one here.
    retain_bytes
        Bytes of a stream that are kept for checkpoints, at most.
    side_streams
        The streams of tuples that other streams of this site refuse.
    save
        Puts a file with a name into a savepoint with a name; may raise anything.
    opens_aside
        Whether sources are opened on threads of their own, for a loop that must not stand still.
    """

    folder: Path | None = None
    site: str = ""
    clock_us: Callable[[], int] = _no_clock
    wake: Callable[[], None] = lambda: None
    buffer_bytes: int = BUFFER_BYTES
    waiting_bytes: int = MOST_WAITING_BYTES
    check_claim: Callable[[], None] = nobody_else
    retain_bytes: int = 0
    side_streams: SideStreams = field(default_factory=SideStreams)
    save: Callable[[str, str, bytes], None] = save_nowhere
    opens_aside: bool = False


class OpenSource:
    """One stream that is being brought in. The methods that are written out here are for a source
    that is read once.

    Attributes
    ----------
    resumes
        Whether its tuples can be read again, with the same numbers, by any process: every call with
        the same arguments gives the same, bit by bit: tuples, watermarks, ingestion times and
        positions. Only then are `retained` and all that follows it asked for.
    waits_for_consumers
        Whether it is told up to where all readers of the stream have its tuples (`confirm`).
    """

    resumes: ClassVar[bool] = False
    waits_for_consumers: ClassVar[bool] = False

    def next_due_us(self, start_at_us: int) -> int | None:
        """When `emit` will next have something, cluster clock; None: never again.

        Parameters
        ----------
        start_at_us
            When the stream was started: every query that reads it is protected from then on.
        """
        raise NotImplementedError

    def emit(self, start_at_us: int, now_us: int) -> SourceEmitted | None:
        """Tuples and watermarks that are due by now; None if none are.

        Timestamps and watermarks rise from one call to the next. The ingestion time of a
        watermark is when it was due, not when it was asked for: latencies include delays of the
        host.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Release everything. The source may be opened again."""

    @property
    def status(self) -> InputStatus | None:
        """Counts of the tuples that it refused; None: it counts none."""
        return None

    @property
    def waits_for(self) -> str | None:
        """What it waits for before it can read on, where it reads from others; None: nothing."""
        return None

    def confirm(self, watermark_ms: int, had_ms: int) -> None:
        """Note up to where everybody has acknowledged the stream, and somebody had it before."""

    def tuples_between(self, after_ms: int, until_ms: int) -> int | None:
        """How many tuples with timestamps after `after_ms` up to `until_ms` it has left out; None:
        it cannot tell."""
        return None

    @property
    def retained(self) -> Position:
        """The cut from which on it can be read again."""
        return Position()

    def need(self, after_ms: int, most_bytes: int) -> None:
        """Keep what follows an event time, up to so many bytes: a checkpoint may need it."""

    def copy(self) -> JournalFiles | None:
        """What another site needs to go on with the stream; None: nothing but its options.

        For any thread.
        """
        return None

    def due_position(self, start_at_us: int, now_us: int) -> Position:
        """The cut after all that is due by now: where a process begins that opens it now."""
        raise NotImplementedError

    def position_at(self, watermark_ms: int) -> Position:
        """The cut after a watermark, if it lies where the source can be read again.

        Raises
        ------
        DriverError
            It does not, or cannot be read.
        """
        raise NotImplementedError

    def seek(self, watermark_ms: int) -> None:
        """Have `emit` continue after this watermark."""
        raise NotImplementedError

    def read(self, start_at_us: int, after: Position, until: Position) -> SourceEmitted | None:
        """A piece of the stream that follows `after` and ends at `until` or before.

        It is of bounded size, however much lies between the two. None if nothing does.

        Raises
        ------
        DriverError
            The stream has no such position: its content has changed.
        """
        raise NotImplementedError


class SourceDriver(Driver, frozen=True, kw_only=True):
    """Options of a source, read out of the section `from` of a stream's manifest."""

    @property
    def guarantee(self) -> Guarantee:
        """What becomes of its tuples if its site is lost, or consumers hold it up."""
        return Guarantee.ONCE

    @property
    def unlike(self) -> str | None:
        """Why two sites that read it at the same time may number it differently; None: they never
        do."""
        return None if self.guarantee is Guarantee.REPLAYABLE else "it is read once"

    @property
    def tied(self) -> str | None:
        """Why no other site can bring it in once its site is gone; None: one can."""
        return self.unlike

    @property
    def together_ms(self) -> float:
        """Time, on the cluster's clock, whose tuples enter at once; plans allow for such bursts."""
        return 0.0

    @property
    def advances_ms(self) -> float:
        """How often the clock advances the stream though no tuple comes; 0: never."""
        return 0.0

    @property
    def advances_after_ms(self) -> float:
        """Silence after which the clock does."""
        return 0.0

    def check(self, assignment: SourceAssignment, site: SiteCheck) -> None:
        """Look whether the source could be opened at a site; nothing is changed there.

        Before a stream is applied, its site does this on a thread that may wait.

        Raises
        ------
        DriverError
            It could not; `Unusable` names the option that is to blame.
        """

    def kept(
        self, assignment: SourceAssignment, folder: Path, site: str
    ) -> tuple[Position | None, Position | None, Path] | None:
        """From where to where a site could read the stream again, and the folder with it.

        Nothing is changed. None for a source that needs no files of the site; no positions if the
        files are not there.

        Raises
        ------
        DriverError
            It cannot be read.
        """
        return None

    def open(self, assignment: SourceAssignment, context: SourceContext) -> OpenSource:
        """Begin to bring a stream in.

        Raises
        ------
        DriverError
            Saying in one line what is wrong with the source.
        """
        raise NotImplementedError


class RecordedSource(SourceDriver, frozen=True, kw_only=True):
    """A source whose whole content is known, so that results from it can be recomputed.

    Attributes
    ----------
    begin_ms, end_ms
        First and last timestamp, both included; streams that are played together must agree.
    speed
        Multiple of the speed it was recorded at.
    repeat
        Start over at the end, with timestamps that go on rising.
    """

    begin_ms: int
    end_ms: int
    speed: float = 1.0
    repeat: bool = False

    @property
    def recording(self) -> Path:
        """Parquet file or folder with the stream's columns, for Spark to read."""
        raise NotImplementedError
