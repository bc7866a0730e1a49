"""The sink driver `http`: results by `GET /streams/NAME`, as they come and from what is archived.

Results are kept in the site's archive, as by the driver `archive`, and sent to every client that
asks for them: as server-sent events, or as a stream of Arrow's IPC format if the client prefers
that. Each tuple has an identity, its stream's generation and its sequence number, which stay the
same whatever restarts. A client that comes again says what it had last (`Last-Event-ID`, or the
parameter `after`), and gets all that follows, each tuple once.

A client may want a part: up to a place, of a range of time, of some columns, under conditions
(`orchestrator.sinks.selection`). `?describe` tells the columns and how far the results have come.

Clients are sent results when they arrive at the site. The latest are kept in memory; a client that
is further behind is sent the rest out of the archive's files, at its own pace.
"""

from __future__ import annotations

import dataclasses
import io
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec
import pyarrow as pa
from pyarrow import ipc

from orchestrator.drivers import DriverError
from orchestrator.host.events import Deliver, Durable
from orchestrator.http_server import JSON, HttpError, Request, Route, Streamed, serve
from orchestrator.listening import Endpoint, need_token, read_endpoint, read_token
from orchestrator.manifest.document import Options, Section
from orchestrator.records import SinkAssignment
from orchestrator.sinks.archive import Archive, OpenArchive, archived, ends
from orchestrator.sinks.delivered import GENERATION, SEQUENCE, Delivered, numbered, numbered_schema
from orchestrator.sinks.driver import SinkDriver
from orchestrator.sinks.selection import PARAMETERS, Place, Selection, place
from streams.chunk import NO_WATERMARK, stream_schema

if TYPE_CHECKING:
    from orchestrator.site_check import SiteCheck

KEPT_BYTES = 8 * 2**20
"""Results kept in memory for clients, besides what is not in the archive yet."""

VALUE_BYTES = 16
"""What a value is taken to need before any results have come."""

KEEP_ALIVE_S = 2.0
"""How often a client is sent a sign of life. Only then is it noticed that one has gone, here and by
a `curl` whose reader has had enough."""

MOST_ROWS, MOST_ARROW_ROWS = 4096, 65_536
"""Of one part of a response, of events and of Arrow."""

EVENTS, ARROW = "text/event-stream", "application/vnd.apache.arrow.stream"

BEGINS = "Vivace-From"
"""Header of a response: the place from which on it has results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Where a client begins.

    Attributes
    ----------
    at
        What lies before is not sent.
    least_seq
        In the first generation that there is, tuples with lesser numbers are not sent.
    is_now
        Whether the client asked for what comes from now on.
    """

    at: Place = (0, 0)
    least_seq: int = 0
    is_now: bool = False


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
        self._folder = folder
        self._schema = numbered_schema(stream_schema(assignment.columns))
        self._archive = OpenArchive(assignment, folder)
        self._changed = threading.Condition()
        self._latest: deque[tuple[Place, pa.RecordBatch]] = deque()
        """Results with the place where each batch ends."""
        self._latest_bytes = 0
        self._kept = self._archive.durable
        self._ends = ends(folder, assignment)
        """Of each generation, the number after its last tuple in the archive."""
        self._unflushed: dict[int, int] = {}
        self._closed = False
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
            self._closed = True
            self._changed.notify_all()
        self._end()
        self._archive.close()

    def _drop(self) -> None:
        """Forget the oldest results that the archive has."""
        while len(self._latest) > 1 and self._latest_bytes > KEPT_BYTES:
            end, batch = self._latest[0]
            kept = self._kept_until
            if kept is None or kept < end:
                return
            self._latest.popleft()
            self._latest_bytes -= batch.nbytes

    def _get(self, request: Request) -> Streamed | object:
        request.check_parameters("an output", "describe", "after", "from", *PARAMETERS)
        if "describe" in request.query:
            request.preferred("a description comes", JSON)
            return self._described()
        begin = self._begin(request)
        self._check_generation(begin.at[0])
        try:
            selection = Selection.read(request.query, self._schema)
        except (ValueError, msgspec.DecodeError) as error:
            raise HttpError(HTTPStatus.BAD_REQUEST, str(error)) from None
        content_type = request.preferred("results come", EVENTS, ARROW)
        form = self._as_arrow if content_type == ARROW else self._as_events
        # Where `now` was, so that a client whose connection breaks before the first result goes on
        # from there.
        headers = {BEGINS: f"{begin.at[0]}-{begin.at[1]}"} if begin.is_now else {}
        parts = form(begin, selection)
        return Streamed(content_type=content_type, parts=parts, headers=headers)

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

    def _begin(self, request: Request) -> Begin:
        """Where a client continues."""
        # A reader that comes again asks for the same address, and says in the header what it has.
        after = request.headers.get("last-event-id", request.query.get("after"))
        if after is not None:
            try:
                generation, seq = place(after)
            except ValueError as error:
                raise HttpError(HTTPStatus.BAD_REQUEST, str(error)) from None
            return Begin(at=(generation, seq + 1))
        begin = request.query.get("from", "0")
        if "-" in begin:
            try:
                return Begin(at=place(begin))
            except ValueError as error:
                raise HttpError(HTTPStatus.BAD_REQUEST, str(error)) from None
        if begin == "now":
            with self._changed:
                latest = self._latest[-1][0] if self._latest else (0, 0)
                return Begin(at=max(latest, self._kept_until or (0, 0)), is_now=True)
        if not (begin.isascii() and begin.isdigit() and len(begin) <= 16):
            problem = "`from` is a sequence number, a generation and one such as 7-50, or now"
            raise HttpError(HTTPStatus.BAD_REQUEST, problem)
        return Begin(least_seq=int(begin))

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

    def _as_events(self, begin: Begin, selection: Selection) -> Iterator[bytes]:
        yield b": results of " + self._assignment.stream.encode() + b"\n\n"
        shown = [name for name in selection.schema.names if name != GENERATION]
        whole = dataclasses.replace(selection, schema=self._schema)
        for batch in self._following(begin, selection, MOST_ROWS):
            if batch is None:
                yield b": still here\n\n"
                continue
            events: list[bytes] = []
            for row in whole.of(batch).to_pylist():
                identity = f"id: {row[GENERATION]}-{row[SEQUENCE]}\n".encode()
                data = msgspec.json.encode({name: row[name] for name in shown})
                events.append(identity + b"data: " + data + b"\n\n")
            # A sign of life, if the reader wants none of them.
            yield b"".join(events) or b": still here\n\n"

    def _as_arrow(self, begin: Begin, selection: Selection) -> Iterator[bytes]:
        sink = io.BytesIO()
        writer = ipc.new_stream(sink, selection.schema)
        nothing = pa.RecordBatch.from_pylist([], schema=selection.schema)
        for batch in self._following(begin, selection, MOST_ARROW_ROWS):
            # A batch without rows is the sign of life.
            writer.write_batch(nothing if batch is None else selection.of(batch))
            yield sink.getvalue()
            sink.seek(0)
            sink.truncate()
        writer.close()
        yield sink.getvalue()

    def _following(
        self, begin: Begin, selection: Selection, most_rows: int
    ) -> Iterator[pa.RecordBatch | None]:
        """Results from a place on up to the selection's end; None after a while without any."""
        at, least_seq = begin.at, begin.least_seq
        meant: int | None = None
        until = selection.until
        while not self._closed:
            if until is not None and at >= until:
                return
            # What completes an end arrives before it, and may do so after a look.
            completed_ms = self._completed_ms
            found, archived_until = self._next(at)
            if archived_until is not None:
                found = archived(self._folder, self._assignment, at, selection.first_ms)
            sent = False
            for batch in found:
                if least_seq:
                    # It is meant in the numbers of the first generation that there is.
                    generation = _number(batch, 0)
                    meant = generation if meant is None else meant
                    least_seq = least_seq if generation == meant else 0
                    batch, least_seq = _skipped(batch, least_seq)
                for first in range(0, batch.num_rows, most_rows):
                    piece = batch.slice(first, most_rows)
                    at, sent = _end(piece), True
                    yield piece if until is None or at <= until else _before(piece, until)
                    if selection.is_past(piece) or (until is not None and at >= until):
                        return
            if archived_until is not None:
                at = max(at, archived_until)
            elif not sent:
                if selection.last_ms is not None and completed_ms >= selection.last_ms:
                    return
                if not self._await(at):
                    yield None
        if selection.is_bounded:
            # An end would tell the client that it has all.
            raise ConnectionAbortedError("the sink ends")

    def _await(self, at: Place) -> bool:
        """Wait for results past a place, or the end; False if none came for a while."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._closed or (bool(self._latest) and self._latest[-1][0] > at),
                KEEP_ALIVE_S,
            )

    def _next(self, at: Place) -> tuple[Iterator[pa.RecordBatch], Place | None]:
        """Results in memory from a place on; or up to where they must be read from the archive."""
        with self._changed:
            begin = _begin(self._latest[0][1]) if self._latest else None
            kept = self._kept_until
            if kept is not None and kept > at and (begin is None or begin > at):
                return iter(()), kept
            batches = [batch for end, batch in self._latest if end > at]
        return (_from(batch, at) for batch in batches), None

    @property
    def _completed_ms(self) -> int:
        kept = self._kept
        return NO_WATERMARK if kept is None else kept.position.watermark_ms

    @property
    def _kept_until(self) -> Place | None:
        kept = self._kept
        return None if kept is None else (kept.generation, kept.position.next_seq)


def _before(batch: pa.RecordBatch, until: Place) -> pa.RecordBatch:
    """The rows of a batch before a place."""
    generations, numbers = batch.column(0).to_numpy(), batch.column(1).to_numpy()
    before = (generations < until[0]) | ((generations == until[0]) & (numbers < until[1]))
    return batch.filter(pa.array(before))


def _begin(batch: pa.RecordBatch) -> Place:
    return _number(batch, 0), _number(batch, 1)


def _end(batch: pa.RecordBatch) -> Place:
    last = batch.slice(batch.num_rows - 1)
    return _number(last, 0), _number(last, 1) + 1


def _skipped(batch: pa.RecordBatch, least_seq: int) -> tuple[pa.RecordBatch, int]:
    """The rows from a number on, and what is to be skipped of further batches."""
    rest = batch.slice(min(max(least_seq - _number(batch, 1), 0), batch.num_rows))
    return rest, 0 if rest.num_rows else least_seq


def _number(batch: pa.RecordBatch, column: int) -> int:
    return int(batch.column(column)[0].as_py())


def _from(batch: pa.RecordBatch, at: Place) -> pa.RecordBatch:
    """The rows of a batch of one generation, which ends past a place, from there on."""
    generation, first_seq = _begin(batch)
    return batch.slice(max(at[1] - first_seq, 0)) if generation == at[0] else batch
