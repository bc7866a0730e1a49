"""The sink driver `http`: results by `GET /streams/NAME`, as they come and from what is archived.

Results are kept in the site's archive, as by the driver `archive`, and sent to every client that
asks for them: as server-sent events, or as a stream of Arrow's IPC format if the client prefers
that. Each tuple has an identity, its stream's generation and its sequence number, which stay the
same whatever restarts. A client that comes again says what it had last (`Last-Event-ID`, or the
parameter `after`), and gets all that follows, each tuple once.

A client may want a part: up to a place, of a range of time, of some columns, under conditions
(`orchestrator.edges.sinks.selection`). `?describe` tells the columns and how far the results have
come.

Clients are sent results when they arrive at the site. The latest are kept in memory; a client that
is further behind is sent the rest out of the archive's files, at its own pace
(`orchestrator.edges.sinks.result_reader`).
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec
import pyarrow as pa

from orchestrator.documents.document import Options, Section
from orchestrator.edges.drivers import DriverError
from orchestrator.edges.events import Deliver, Durable
from orchestrator.edges.http_server import (
    JSON,
    HttpError,
    Route,
    Streamed,
    StreamRequest,
    held_parts,
    outputs,
    serve,
)
from orchestrator.edges.listening import Endpoint, need_token, read_endpoint, read_token
from orchestrator.edges.sinks.archive import Archive, ArchiveReader, OpenArchive, ends, head
from orchestrator.edges.sinks.delivered import Delivered, numbered, numbered_schema
from orchestrator.edges.sinks.driver import SinkDriver
from orchestrator.edges.sinks.result_reader import (
    ArrowForm,
    EventForm,
    Form,
    ResultReader,
    StartPosition,
    begin_of,
    end_of,
    from_place,
)
from orchestrator.edges.sinks.selection import PARAMETERS, Place, ResultSelection, place
from orchestrator.records import SinkAssignment
from streams.vectors.chunk import NO_WATERMARK, stream_schema

if TYPE_CHECKING:
    from orchestrator.edges.site_check import SiteCheck

KEPT_BYTES = 8 * 2**20
"""Results kept in memory for clients at most, besides what is not in the archive yet."""

VALUE_BYTES = 16
"""What a value is taken to need before any results have come."""

KEEP_ALIVE_S = 2.0
"""How often a client is sent a sign of life. Only then is it noticed that one has gone, here and by
a `curl` whose reader has had enough."""

EVENTS, ARROW = "text/event-stream", "application/vnd.apache.arrow.stream"

BEGINS = "Vivace-From"
"""Header of a response: the place from which on it has results."""


class HttpResults(SinkDriver, frozen=True, kw_only=True):
    """Results that clients get.

    Attributes
    ----------
    listen
        Where.
    token_file
        If there is one, clients show the token in it.
    """

    listen: Endpoint = Endpoint()
    token_file: str | None = None

    @classmethod
    def read(cls, section: Section) -> Self:
        """The manifest's `to: {http: …}`."""
        options: Options = {
            "listen": ("listen", read_endpoint),
            "token_file": ("tokenFile", lambda field: str(field.path())),
        }
        made = cls(**section.given(options))
        need_token(section.get("listen"), made.listen, made.token_file)
        return made

    @property
    def ignores_case(self) -> bool:
        """Spark reads them (`vivace.spark`)."""
        return True

    def check(self, assignment: SinkAssignment, site: SiteCheck) -> None:
        """Look whether the site could listen."""
        site.need_token(self.token_file)
        site.need_port(self.listen, assignment.stream, http=True)

    def open(self, assignment: SinkAssignment, folder: Path) -> OpenHttpResults:
        """Listen, and continue the archive."""
        return OpenHttpResults(self, assignment, folder)

    def kept(self, assignment: SinkAssignment, folder: Path) -> Durable | None:
        """What is in the archive."""
        return Archive().kept(assignment, folder)

    def read_back(self, stream: str, folder: Path) -> Delivered:
        """What is in the archive."""
        return Archive().read_back(stream, folder)


class OpenHttpResults:
    """The results of one stream: its archive, and the clients that follow it.

    Attributes
    ----------
    address
        Where clients get them.
    """

    def __init__(self, options: HttpResults, assignment: SinkAssignment, folder: Path) -> None:
        token = read_token(options.token_file)
        self._assignment = assignment
        self._schema = numbered_schema(stream_schema(assignment.columns))
        self._archive = OpenArchive(assignment, folder)
        self._changed = threading.Condition()
        self._dropped = 0
        self._latest: deque[tuple[Place, pa.RecordBatch]] = deque()
        """Results with the place where each batch ends."""
        self._latest_bytes = 0
        self._kept = self._archive.durable
        self._ends = ends(folder, assignment)
        """Of each generation, the number after its last tuple in the archive."""
        self._unflushed: dict[int, int] = {}
        self.closed = False
        try:
            address, self._end = serve(
                options.listen, assignment.stream, Route(token=token, get=self._get)
            )
        except (OSError, ValueError) as error:
            self._archive.close()
            raise DriverError(f"cannot listen at {options.listen}: {error}") from None
        self.address = f"http://{address}/streams/{assignment.stream}"

    @property
    def durable(self) -> Durable | None:
        """What the archive has."""
        return self._archive.durable

    def arrived(self, delivery: Deliver) -> None:
        """Send a delivery to the clients."""
        if not delivery.chunk.rows.num_rows:
            return
        batch = numbered([delivery])
        with self._changed:
            self._latest.append(((delivery.generation, delivery.chunk.next_seq), batch))
            self._latest_bytes += batch.nbytes
            self._drop()
            self._changed.notify_all()

    def keep(self, delivery: Deliver) -> None:
        """Take a delivery into the archive."""
        self._archive.keep(delivery)
        self._unflushed[delivery.generation] = delivery.chunk.next_seq

    def flush(self) -> None:
        """Write to the archive."""
        self._archive.flush()
        with self._changed:
            self._kept = self._archive.durable
            self._ends |= self._unflushed
            self._unflushed = {}

    def close(self) -> None:
        """End the clients' responses, and the archive."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()
        self._end()
        self._archive.close()

    def _drop(self) -> None:
        """Forget the oldest results that the archive has."""
        while len(self._latest) > 1 and self._latest_bytes > self._most_latest_bytes:
            end, batch = self._latest[0]
            kept = self._kept_until
            if kept is None or kept < end:
                return
            self._latest.popleft()
            self._latest_bytes -= batch.nbytes

    @property
    def _most_latest_bytes(self) -> int:
        """What the latest results may take, beside those of all other outputs of the process."""
        return min(KEPT_BYTES, held_parts.most_bytes // max(outputs(), 1))

    def _get(self, request: StreamRequest) -> Streamed | object:
        request.check_parameters("an output", "describe", "after", "from", *PARAMETERS)
        if "describe" in request.query:
            request.preferred("a description comes", JSON)
            return self._described()
        begin = self._begin(request)
        self._check_generation(begin.at[0])
        try:
            selection = ResultSelection.read(request.query, self._schema)
        except (ValueError, msgspec.DecodeError) as error:
            raise HttpError(HTTPStatus.BAD_REQUEST, str(error)) from None
        content_type = request.preferred("results come", EVENTS, ARROW)
        form: Form = EventForm(self._assignment.stream, selection, self._schema)
        if content_type == ARROW:
            form = ArrowForm(selection)
        # Where `now` was, so that a client whose connection breaks before the first result goes on
        # from there.
        headers = {BEGINS: f"{begin.at[0]}-{begin.at[1]}"} if begin.is_now else {}
        reader = ResultReader(self, begin, selection, form)
        return Streamed(
            content_type=content_type,
            parts=reader.parts(),
            headers=headers,
            dropped=self._dropped_one,
        )

    def _described(self) -> object:
        with self._changed:
            generations = sorted(self._ends.items())
            latest_rows = sum(batch.num_rows for _, batch in self._latest)
            latest_bytes = self._latest_bytes
        kept = self._kept
        row_bytes = VALUE_BYTES * len(self._schema)
        return {
            "row_bytes": -(-latest_bytes // latest_rows) if latest_rows else row_bytes,
            "columns": self._assignment.columns,
            "generations": generations,
            "completed_ms": None if kept is None else kept.position.watermark_ms,
        }

    def _begin(self, request: StreamRequest) -> StartPosition:
        """Where a client continues."""
        # A reader that comes again asks for the same address, and says in the header what it has.
        after = request.headers.get("last-event-id", request.query.get("after"))
        if after is not None:
            try:
                generation, seq = place(after)
            except ValueError as error:
                raise HttpError(HTTPStatus.BAD_REQUEST, str(error)) from None
            return StartPosition(at=(generation, seq + 1))
        begin = request.query.get("from", "0")
        if "-" in begin:
            try:
                return StartPosition(at=place(begin))
            except ValueError as error:
                raise HttpError(HTTPStatus.BAD_REQUEST, str(error)) from None
        if begin == "now":
            with self._changed:
                latest = self._latest[-1][0] if self._latest else (0, 0)
                return StartPosition(at=max(latest, self._kept_until or (0, 0)), is_now=True)
        if not (begin.isascii() and begin.isdigit() and len(begin) <= 16):
            problem = "`from` is a sequence number, a generation and one such as 7-50, or now"
            raise HttpError(HTTPStatus.BAD_REQUEST, problem)
        return StartPosition(least_seq=int(begin))

    def _check_generation(self, generation: int) -> None:
        """Refuse a generation that has not begun, instead of waiting for it.

        A site that was killed may have sent results that its disk does not have. It knows the
        newest generation as soon as it has received any since it was started; until then, clients
        wait.
        """
        with self._changed:
            newest = self._latest[-1][0][0] if self._latest else generation
        if generation > newest:
            problem = f"there is no generation {generation} yet; the newest is {newest}"
            raise HttpError(HTTPStatus.BAD_REQUEST, problem)

    def latest(self, at: Place, most_bytes: int) -> tuple[list[pa.RecordBatch], Place | None]:
        """Results in memory from a place on; or up to where they must be read from the archive."""
        with self._changed:
            begin = begin_of(self._latest[0][1]) if self._latest else None
            kept = self._kept_until
            if kept is not None and kept > at and (begin is None or begin > at):
                return [], kept
            first = bisect_right(self._latest, at, key=lambda each: each[0])
            found: list[pa.RecordBatch] = []
            for _, batch in islice(self._latest, first, None):
                if most_bytes <= 0:
                    break
                found.append(head(from_place(batch, at), most_bytes))
                most_bytes -= found[-1].nbytes
                if end_of(found[-1]) < end_of(batch):
                    break
            return found, None

    def archive_from(self, at: Place, first_ms: int | None) -> ArchiveReader:
        """What reads the archive from a place on."""
        return self._archive.reader(at, first_ms)

    def wait_past(self, at: Place) -> bool:
        """Wait for results past a place, or the end; False if none came for a while."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self.closed or (bool(self._latest) and self._latest[-1][0] > at),
                KEEP_ALIVE_S,
            )

    def take_dropped(self) -> int:
        """How many readers have lost their connection since the last call."""
        with self._changed:
            dropped, self._dropped = self._dropped, 0
        return dropped

    def _dropped_one(self) -> None:
        with self._changed:
            self._dropped += 1

    @property
    def completed_ms(self) -> int:
        """Up to where results are complete and archived."""
        kept = self._kept
        return NO_WATERMARK if kept is None else kept.position.watermark_ms

    @property
    def _kept_until(self) -> Place | None:
        kept = self._kept
        return None if kept is None else (kept.generation, kept.position.next_seq)
