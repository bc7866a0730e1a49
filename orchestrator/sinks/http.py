"""The sink driver `http`: results by `GET /streams/NAME`, as they come and from what is archived.

Results are kept in the site's archive, as by the driver `archive`, and sent to every client that
asks for them: as server-sent events, or as a stream of Arrow's IPC format if the client accepts
that. Each tuple has an identity, its stream's generation and its sequence number, which stay the
same whatever restarts. A client that comes again says what it had last (`Last-Event-ID`, or the
parameter `after`), and gets all that follows, each tuple once.

Clients are sent results when they arrive at the site. The latest are kept in memory; a client that
is further behind is sent the rest out of the archive's files, at its own pace.
"""

from __future__ import annotations

import io
import re
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Self

import msgspec
import pyarrow as pa
from pyarrow import ipc

from orchestrator.drivers import DriverError
from orchestrator.host.events import Deliver, Durable
from orchestrator.http_server import HttpError, Request, Route, Streamed, serve
from orchestrator.listening import Endpoint, need_token, read_endpoint, read_token
from orchestrator.manifest.document import Options, Section
from orchestrator.records import SinkAssignment
from orchestrator.sinks.archive import Archive, OpenArchive, archived
from orchestrator.sinks.delivered import GENERATION, SEQUENCE, Delivered, numbered, numbered_schema
from orchestrator.sinks.driver import SinkDriver
from streams.chunk import stream_schema

KEPT_BYTES = 8 * 2**20
"""Results kept in memory for clients, besides what is not in the archive yet."""

KEEP_ALIVE_S = 10.0
"""How often a client is sent a sign of life."""

MOST_ROWS = 4096
"""Of one part of a response."""

ARROW = "application/vnd.apache.arrow.stream"

_identity = re.compile(r"([0-9]{1,16})-([0-9]{1,16})")

Place = tuple[int, int]
"""Generation and sequence number: the place just before a tuple."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Where a client begins.

    Attributes
    ----------
    at
        What lies before is not sent.
    least_seq
        In the first generation that there is, tuples with lesser numbers are not sent.
    """

    at: Place = (0, 0)
    least_seq: int = 0


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

    def flush(self) -> None:
        """Write to the archive."""
        self._archive.flush()
        with self._changed:
            self._kept = self._archive.durable

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

    def _get(self, request: Request) -> Streamed:
        begin = self._begin(request)
        if ARROW in request.headers.get("accept", ""):
            return Streamed(content_type=ARROW, parts=self._as_arrow(begin))
        return Streamed(content_type="text/event-stream", parts=self._as_events(begin))

    def _begin(self, request: Request) -> Begin:
        """Where a client continues."""
        after = request.query.get("after", request.headers.get("last-event-id"))
        if after is not None:
            if (found := _identity.fullmatch(after.strip())) is None:
                raise HttpError(
                    HTTPStatus.BAD_REQUEST,
                    f"{after[:100]!r} is no identity of a tuple; write GENERATION-SEQUENCE",
                )
            return Begin(at=(int(found[1]), int(found[2]) + 1))
        begin = request.query.get("from", "0")
        if begin == "now":
            with self._changed:
                latest = self._latest[-1][0] if self._latest else (0, 0)
                return Begin(at=max(latest, self._kept_until or (0, 0)))
        if not (begin.isascii() and begin.isdigit() and len(begin) <= 16):
            raise HttpError(HTTPStatus.BAD_REQUEST, "`from` is a sequence number, or now")
        return Begin(least_seq=int(begin))

    def _as_events(self, begin: Begin) -> Iterator[bytes]:
        yield b": results of " + self._assignment.stream.encode() + b"\n\n"
        for batch in self._following(begin):
            if batch is None:
                yield b": still here\n\n"
                continue
            events: list[bytes] = []
            for row in batch.to_pylist():
                generation = row.pop(GENERATION)
                identity = f"id: {generation}-{row[SEQUENCE]}\n".encode()
                events.append(identity + b"data: " + msgspec.json.encode(row) + b"\n\n")
            yield b"".join(events)

    def _as_arrow(self, begin: Begin) -> Iterator[bytes]:
        sink = io.BytesIO()
        writer = ipc.new_stream(sink, self._schema)
        nothing = pa.RecordBatch.from_pylist([], schema=self._schema)
        for batch in self._following(begin):
            # A batch without rows is the sign of life.
            writer.write_batch(nothing if batch is None else batch)
            yield sink.getvalue()
            sink.seek(0)
            sink.truncate()
        writer.close()
        yield sink.getvalue()

    def _following(self, begin: Begin) -> Iterator[pa.RecordBatch | None]:
        """Results from a place on, for ever; None after a while without any."""
        at, least_seq = begin.at, begin.least_seq
        while not self._closed:
            found, archived_until = self._next(at)
            if archived_until is not None:
                found = archived(self._folder, self._assignment, at)
            sent = False
            for batch in found:
                if least_seq:
                    # It is meant in the numbers of the first generation that there is.
                    batch, least_seq = _skipped(batch, least_seq)
                for first in range(0, batch.num_rows, MOST_ROWS):
                    piece = batch.slice(first, MOST_ROWS)
                    at, sent = _end(piece), True
                    yield piece
            if archived_until is not None:
                at = max(at, archived_until)
            elif not sent and not self._await(at):
                yield None

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
    def _kept_until(self) -> Place | None:
        kept = self._kept
        return None if kept is None else (kept.generation, kept.position.next_seq)


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
