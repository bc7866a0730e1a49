"""Options that all live sources share, and how one of them is opened."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from orchestrator.documents.document import Field, Options, Section
from orchestrator.documents.units import memory_bytes
from orchestrator.edges.drivers import DriverError
from orchestrator.edges.sources.driver import SourceContext, SourceDriver
from orchestrator.edges.sources.formats.form_options import form_options, read_timestamp, row_form
from orchestrator.edges.sources.formats.rejections import RejectedInput
from orchestrator.edges.sources.formats.row_form import ISO, NULLS, RowForm, Unknown
from orchestrator.edges.sources.live.confirmed_input import ConfirmedInput
from orchestrator.edges.sources.live.ingestion import Ingestion
from orchestrator.edges.sources.live.journal import Journal, is_gone
from orchestrator.edges.sources.live.live_input import JournaledInput, LiveInput
from orchestrator.edges.sources.live.orderer import EventTime
from orchestrator.edges.sources.live.waiting_tuples import WaitingTuples
from orchestrator.folders import path_part, private_folder
from orchestrator.records import Guarantee, SourceAssignment
from streams.vectors.chunk import Position, stream_schema

if TYPE_CHECKING:
    from orchestrator.edges.site_check import SiteCheck

JOURNALS = "journal"
"""Folder of the journals, in the site's."""

LEAST_RETAIN_BYTES = 32 * 2**20
"""Below that, a segment would not fit several times."""

RETURNS_MS = 3000
"""Our own clients try again every 2 s, and `Retry-After` says 1 s."""


class Durability(Enum):
    """What accepted input survives: it is safe from that before its client is told."""

    MACHINE = "machine"
    """The loss of the machine's power: the disk has it."""
    PROCESS = "process"
    """A killed site: the operating system has it."""
    REPLICAS = "replicas"
    """The loss of the site with its disk: all readers of the stream have the input."""
    NOTHING = "no"
    """Nothing: the site's end loses tuples that no consumer has, and the stream begins anew."""


class LiveSource(SourceDriver, frozen=True, kw_only=True):
    """A source that takes tuples from clients.

    Attributes
    ----------
    time_column, time_format
        Column with the timestamp, and how it is written; None: the timestamp is the arrival.
    slack_ms
        By how much tuples may come out of order.
    idle_after_ms
        Silence after which the clock advances the stream; None: never.
    max_ahead_ms
        How far a timestamp may lie ahead of the clock; None: as far as it likes.
    advance_ms
        How often the clock advances an idle stream.
    durable
        What accepted input survives.
    retain_bytes
        How much of the stream the journal keeps, for consumers that lack some.
    late, rejected
        Whether late tuples, and other refused ones, are streams of their own.
    time_path, nulls, unknown
        As `orchestrator.edges.sources.formats.form_options` has them.
    """

    time_column: str | None = None
    time_format: str = ISO
    slack_ms: int = 0
    idle_after_ms: int | None = 1000
    max_ahead_ms: int | None = 60_000
    advance_ms: float = 100.0
    durable: Durability = Durability.MACHINE
    retain_bytes: int = 128 * 2**20
    late: bool = False
    rejected: bool = False
    time_path: tuple[str, ...] = ()
    nulls: tuple[str, ...] = NULLS
    unknown: Unknown = Unknown.IGNORE

    own_options: ClassVar[Options] = {}
    pushed: ClassVar[bool] = False
    """Whether clients send tuples, and are told when they may forget them."""

    @classmethod
    def read(cls, section: Section) -> Self:
        """The driver's own options, and those that all share."""
        return cls(**cls.given(section))

    @classmethod
    def given(cls, section: Section) -> dict[str, Any]:
        """Those options that a manifest gives, by attribute."""
        given = section.given({**_options, **cls.own_options})
        timestamp = given.pop("timestamp", {})
        if given.get("durable") is Durability.REPLICAS:
            cls._check_replicas(section, by_column="time_column" in timestamp, given=given)
        return {**timestamp, **given}

    @classmethod
    def _check_replicas(
        cls, section: Section, *, by_column: bool, given: Mapping[str, Any]
    ) -> None:
        if not cls.pushed:
            section.need("durable").refuse(
                "is for sources that clients push into", "Write `machine`, `process` or `no`."
            )
        if by_column and given.get("idle_after_ms", 0) is None:
            section.need("durable").refuse(
                "needs an end of each timestamp, and with `idleAfter: off` the newest has none",
                "Write a duration for `idleAfter`, or `durable: machine`.",
            )

    @property
    def guarantee(self) -> Guarantee:
        """Whoever sends waits; most streams have a journal."""
        journaled = self.durable in (Durability.MACHINE, Durability.PROCESS)
        return Guarantee.JOURNALED if journaled else Guarantee.SENT

    @property
    def unlike(self) -> str | None:
        """Whoever sends to a site sends to that one alone."""
        return "what is sent to one site does not come to the other"

    @property
    def tied(self) -> str | None:
        """Another site needs no tuples that consumers have, and clients send it the rest."""
        if not self.pushed or self.unlike is None:
            return self.unlike
        if self.durable is not Durability.REPLICAS:
            return f"{self.unlike}, unless with `durable: replicas`"
        if self.late or self.rejected:
            return "leave out `late` and `rejected`, whose streams are kept at one site"
        return None

    def lacks(self, own: Mapping[str, bool]) -> str | None:
        """Why two sites that read the source at different times may number it differently.

        Parameters
        ----------
        own
            Conditions of this driver, besides those of all → whether they are met.
        """
        wanted = {
            **own,
            "`idleAfter: off`": self.idle_after_ms is None,
            "`maxAhead: off`": self.max_ahead_ms is None,
            "a timestamp that is not the arrival": not self.by_arrival,
            "a journal": self.guarantee.resumable,
            "neither `late` nor `rejected`": not (self.late or self.rejected),
        }
        missing = [option for option, has in wanted.items() if not has]
        return f"it also needs {', '.join(missing)}" if missing else None

    @property
    def by_arrival(self) -> bool:
        """Whether the timestamp of a tuple is when it arrived."""
        return self.time_column is None

    def form(self, assignment: SourceAssignment) -> RowForm:
        """The rows that a stream takes."""
        return row_form(self, assignment.columns, assignment.fields)

    @property
    def event_time(self) -> EventTime:
        """How its event time advances."""
        return EventTime(
            by_arrival=self.by_arrival,
            slack_ms=self.slack_ms,
            idle_after_ms=self.idle_after_ms,
            max_ahead_ms=self.max_ahead_ms,
            one_by_one=self.unlike is None,
            returns_ms=RETURNS_MS if self.pushed else 0,
        )

    @property
    def advances_ms(self) -> float:
        """How often the clock advances the stream though no tuple comes; 0: never."""
        never = self.idle_after_ms is None and not self.by_arrival
        return 0.0 if never else self.advance_ms

    @property
    def advances_after_ms(self) -> float:
        """Silence after which the clock does."""
        return 0.0 if self.by_arrival else self.idle_after_ms or 0.0

    def check(self, assignment: SourceAssignment, site: SiteCheck) -> None:
        """Look whether the site could keep the stream's journal."""
        if self._keeps(assignment):
            site.need_folder("durable", self.durable.value, "the stream's journal")

    def input(self, assignment: SourceAssignment, context: SourceContext) -> LiveInput:
        """Open the stream's journal and its way to the host. No client sends anything yet.

        Raises
        ------
        DriverError
            The journal cannot be used.
        """
        schema = stream_schema(assignment.columns)
        time = self.event_time
        folder = context.folder
        try:
            if folder is not None:
                private_folder(folder)
                if assignment.peer_site is not None:
                    # Each of two sites keeps a journal of its own, also where they share a folder.
                    folder = private_folder(
                        private_folder(folder / "sites") / path_part(context.site)
                    )
            journal = self._journal(assignment, folder)
        except OSError as error:
            raise DriverError(f"the journal cannot be opened: {error}") from None
        kind = LiveInput if journal is None else JournaledInput
        if self.durable is Durability.REPLICAS:
            kind = ConfirmedInput
        stream, sides = assignment.stream, context.side_streams
        waiting = WaitingTuples(
            schema,
            memory_bytes=context.buffer_bytes,
            folder=folder,
            most_bytes=context.waiting_bytes,
        )
        refuse = partial(sides.keep, stream)
        try:
            ingestion = Ingestion(
                schema, time, journal, context.clock_us(), refuse=refuse, waiting=waiting
            )
        except OSError as error:
            if journal is not None:
                journal.close()
            raise DriverError(f"what waits cannot be written: {error}") from None
        return kind(
            stream,
            ingestion,
            journal,
            clock_us=context.clock_us,
            wake=context.wake,
            buffer_bytes=context.buffer_bytes,
            advance_us=round(self.advance_ms * 1000),
            rejections=RejectedInput(stream, folder, context.clock_us, partial(sides.note, stream)),
        )

    def kept(
        self, assignment: SourceAssignment, folder: Path, site: str
    ) -> tuple[Position | None, Position | None, Path] | None:
        """What its journal has."""
        if not self._keeps(assignment):
            return None
        if assignment.peer_site is not None:
            folder = folder / "sites" / path_part(site)
        own = folder / JOURNALS / path_part(assignment.stream) / str(assignment.generation)
        if not any(own.glob("*.journal")):
            return None, None, own
        schema = stream_schema(assignment.columns)
        try:
            journal = Journal(own, schema, read_only=True)
        except OSError as error:
            raise DriverError(f"the journal {own} cannot be read: {error}") from None
        try:
            return journal.retained, journal.end, own
        finally:
            journal.close()

    def folder(
        self, assignment: SourceAssignment, context: SourceContext, purpose: str
    ) -> Path | None:
        """A folder for this generation of the stream, beside its journal. Older ones are removed.

        None if it has no journal.
        """
        if not self._keeps(assignment) or context.folder is None:
            return None
        stream = private_folder(
            private_folder(context.folder / purpose) / path_part(assignment.stream)
        )
        _drop_former(stream, assignment.generation)
        return stream / str(assignment.generation)

    def _keeps(self, assignment: SourceAssignment) -> bool:
        return self.guarantee.resumable and assignment.resumes

    def _journal(self, assignment: SourceAssignment, folder: Path | None) -> Journal | None:
        if not self._keeps(assignment):
            return None
        if folder is None:
            raise DriverError(
                "the site has no folder for the stream's journal: set `archive` in its "
                "configuration, or `durable: no` in the stream's manifest"
            )
        stream = private_folder(folder / JOURNALS) / path_part(assignment.stream)
        own = stream / str(assignment.generation)
        if assignment.start_at_us is not None and not any(own.glob("*.journal")):
            raise is_gone(own)
        private_folder(stream)
        journal = Journal(
            own,
            stream_schema(assignment.columns),
            retain_bytes=self.retain_bytes,
            sync=self.durable is Durability.MACHINE,
        )
        _drop_former(stream, assignment.generation)
        return journal


def _drop_former(stream: Path, generation: int) -> None:
    """Remove the files of former lives of a stream: nobody reads them any more."""
    for folder in stream.iterdir():
        if folder.name.isdigit() and int(folder.name) < generation:
            shutil.rmtree(folder)


def _duration(field: Field) -> int:
    return round(field.duration_ms())


def _unless_off(field: Field) -> int | None:
    """A duration; `off` stands for none."""
    if field.node.value in ("off", "false", "never"):
        return None
    return round(field.interval_ms())


def _durable(field: Field) -> Durability:
    # YAML reads `no` as false.
    if field.node.value == "no":
        return Durability.NOTHING
    return Durability(field.choice([each.value for each in Durability]))


def _retain(field: Field) -> int:
    size = field.quantity(memory_bytes, positive=True)
    if size < LEAST_RETAIN_BYTES:
        field.refuse(
            "is too little for a journal", f"Write {LEAST_RETAIN_BYTES // 2**20}m or more."
        )
    return size


_options: Options = {
    "timestamp": ("timestamp", read_timestamp),
    "slack_ms": ("slack", _duration),
    "idle_after_ms": ("idleAfter", _unless_off),
    "max_ahead_ms": ("maxAhead", _unless_off),
    "advance_ms": ("advance", Field.interval_ms),
    "durable": ("durable", _durable),
    "retain_bytes": ("retain", _retain),
    "late": ("late", Field.boolean),
    "rejected": ("rejected", Field.boolean),
    **form_options,
}
