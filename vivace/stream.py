"""A stream that enters at a site.

Every batch carries the client's name and a number that rises. If no response comes, the batch is
sent again with the same number, and the site lets it enter once.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import re
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from http import HTTPStatus
from urllib.parse import quote

import pyarrow as pa
from pyarrow import ipc

from vivace.exchange import (
    ABORT,
    ARROW,
    COMMIT,
    Patience,
    Refused,
    SiteAddresses,
    look_elsewhere,
    problem,
)
from vivace.rows import Rows, table_of

BUSY = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
"""What a site responds with that takes the batch later."""

_row = re.compile(r"^(nothing entered: )row (\d+)")

MOST_NAME = 90
"""Characters of a client's name that are sent with numbers of its own."""

PIECE_BYTES = 4 * 2**20
"""Larger batches are sent in pieces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What became of a batch; the site has it for good.

    Attributes
    ----------
    accepted
        Tuples that the site has. They enter in the order of event time, and may wait for a later
        one.
    late, ahead
        Tuples that were refused, because their timestamps were complete already or lie too far
        ahead.
    repeated
        Pieces that had entered before.
    undecided
        Tuples whose timestamps consumers had before the site was started again, with
        `durable: replicas`. They are in the results if they had come before, and late if not.
    waiting
        Tuples of the stream, whoever has sent them, that had been accepted and not entered at the
        time of the last response.
    """

    accepted: int = 0
    late: int = 0
    ahead: int = 0
    repeated: int = 0
    undecided: int = 0
    waiting: int = 0

    @staticmethod
    def read(document: bytes) -> Sent:
        """What a site says of one piece."""
        told = json.loads(document)
        return Sent(**{each.name: int(told.get(each.name, 0)) for each in fields(Sent)})

    def __add__(self, other: Sent) -> Sent:
        return Sent(
            accepted=self.accepted + other.accepted,
            late=self.late + other.late,
            ahead=self.ahead + other.ahead,
            repeated=self.repeated + other.repeated,
            undecided=self.undecided + other.undecided,
            waiting=other.waiting,
        )


class Stream:
    """A stream that enters at a site. Threads may share it."""

    def __init__(self, place: SiteAddresses, name: str, client: str) -> None:
        self._place = place
        self._name = name
        self._path = f"/streams/{quote(name, safe='')}"
        self._client = client
        # Numbers of its own begin anew with each program, and so are those of another client.
        self._numbering = f"{client[:MOST_NAME]}.{uuid.uuid4().hex}"
        self._number = 0
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None

    def send(self, rows: Rows, *, number: int | None = None) -> Sent:
        """Send tuples; returns when the site has them for good.

        Parameters
        ----------
        rows
            Arrow's record batch or table, a DataFrame of pandas or Polars, columns by name, or a
            list of rows.
        number
            Of the batch, rising from one to the next. Without it, it is sent in pieces that are
            small enough for the site, under numbers of their own.

        Raises
        ------
        Refused
            The rows are not of the stream's form, or the token is wrong: nothing entered of them,
            but what `Refused.entered` says.
        Unavailable
            The site was away or full for too long.
        """
        table = table_of(rows)
        if number is not None:
            return self.send_body(_encoded(table), ARROW, number=number)
        sent, before = Sent(), 0
        for piece in pieces(table):
            try:
                sent += self.send_body(_encoded(piece), ARROW)
                before += piece.num_rows
            except Refused as error:
                problem = _in_all(error, before)
                if sent.accepted:
                    problem += f"; the {sent.accepted:,} tuples before have entered"
                raise Refused(error.status, problem, sent.accepted) from None
        return sent

    async def send_async(self, rows: Rows, *, number: int | None = None) -> Sent:
        """As `send`, in an event loop."""
        return await asyncio.to_thread(self.send, rows, number=number)

    def send_body(self, body: bytes, content_type: str, *, number: int | None = None) -> Sent:
        """Send a batch that is written already: CSV, JSON lines, or Arrow's IPC stream."""
        return Sent.read(self._send(body, content_type, number))

    def stage(self, rows: Rows, *, number: int, part: str) -> None:
        """Send a part of a batch, which does not enter until the batch is committed.

        Parts may be sent by several processes. The same part again replaces the one before.

        Parameters
        ----------
        number
            Of the batch, below 2**32, rising from one to the next.
        part
            Name of the part: letters, digits, hyphens, underscores and dots.
        """
        self._send(_encoded(table_of(rows)), ARROW, number, {"Vivace-Part": part})

    def commit(self, number: int, parts: Sequence[str]) -> Sent:
        """Let a batch enter as a whole; returns when it has. It enters once.

        Raises
        ------
        Refused
            The site lacks a part: the batch must be written again.
        """
        body = json.dumps({"parts": list(parts)}).encode()
        return Sent.read(self._send(body, COMMIT, number))

    def abort(self, number: int) -> None:
        """Have the site drop the parts of a batch."""
        self._send(b"{}", ABORT, number)

    def _send(
        self, body: bytes, content_type: str, number: int | None, extra: Mapping[str, str] = {}
    ) -> bytes:
        # Waiting for another thread's batch counts, too.
        waiting = Patience(self._place.address, self._place.patience_s)
        with self._lock:
            client = self._client
            if number is None:
                client, number = self._numbering, self._number
                self._number += 1
            headers = {
                **self._place.headers,
                **extra,
                "Content-Type": content_type,
                "Vivace-Client": client,
                "Vivace-Number": str(number),
            }
            while True:
                try:
                    status, document = self._post(body, headers)
                    if status == http.client.OK:
                        self._place.found.add(self._name)
                        return document
                    if status not in BUSY:
                        look_elsewhere(self._place, self._name, status, document)
                    error = RuntimeError(problem(document))
                except (OSError, http.client.HTTPException) as failure:
                    self.close()
                    error = failure
                if self._place.may_be_elsewhere:
                    # It may be busy because nobody reads from it any more.
                    self.close()
                    self._place.turn()
                waiting.failed(error)

    def close(self) -> None:
        """Close the connection; the next `send` opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _post(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = self._place.connection()
        self._connection.request("POST", self._path, body, dict(headers))
        response = self._connection.getresponse()
        document = response.read()
        if response.will_close:
            self.close()
        return response.status, document


def pieces(table: pa.Table) -> Iterator[pa.Table]:
    """A table in halves of halves, until each is of `PIECE_BYTES` at most, or a row."""
    if table.num_rows <= 1 or table.nbytes <= PIECE_BYTES:
        if table.num_rows:
            yield table
        return
    middle = table.num_rows // 2
    yield from pieces(table.slice(0, middle))
    yield from pieces(table.slice(middle))


def _in_all(error: Refused, before: int) -> str:
    """What a site says of a piece, with the row counted in all that is sent."""
    return _row.sub(lambda at: f"{at[1]}row {int(at[2]) + before}", str(error))


def _encoded(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    # What pandas notes in a schema is of no use to the site.
    plain = table.replace_schema_metadata()
    writer = ipc.new_stream(sink, plain.schema)
    writer.write_table(plain)
    writer.close()
    return sink.getvalue()
