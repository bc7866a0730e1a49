"""The client of a site's HTTP server.

*Once.* Every batch carries the client's name and a number that rises. If no response comes, the
batch is sent again with the same number, and the site lets it enter once. A program that gives its
own name and numbers, such as the offsets of what it reads, may even be killed and started again.

*Back-pressure.* If the site has no room, `send` waits and tries again.

*Results* come with generation and sequence number. If the connection breaks, the iterator goes on
after the last tuple that it gave.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import pyarrow as pa
from pyarrow import ipc

T = TypeVar("T")

Rows = pa.RecordBatch | pa.Table | Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]
"""A batch: Arrow's, columns by name, or rows."""

ARROW = "application/vnd.apache.arrow.stream"

PIECE_BYTES = 4 * 2**20
"""Larger batches are sent in pieces."""

PATIENCE_S = 60.0
"""How long a site may be away or full until `send` gives up."""

SILENCE_S = 30.0
"""A site sends results, or a sign of life, at least every ten seconds."""

RESPONSE_S = 60.0
"""How long a site may take for one response."""

FIRST_RETRY_S, LONGEST_RETRY_S = 0.05, 2.0


class Refused(Exception):
    """The site does not take it, now or later.

    Attributes
    ----------
    status
        Of HTTP.
    """

    def __init__(self, status: int, problem: str) -> None:
        super().__init__(problem)
        self.status = status


class Unavailable(Exception):
    """The site was away or full for too long. The batch may have entered: send it again with the
    same number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What became of a batch; the site has it for good.

    Attributes
    ----------
    accepted
        Tuples that have entered.
    late, ahead
        Tuples that did not, because their timestamps were complete already or lie too far ahead.
    repeated
        Pieces that had entered before.
    """

    accepted: int = 0
    late: int = 0
    ahead: int = 0
    repeated: int = 0

    def __add__(self, other: Sent) -> Sent:
        return Sent(
            accepted=self.accepted + other.accepted,
            late=self.late + other.late,
            ahead=self.ahead + other.ahead,
            repeated=self.repeated + other.repeated,
        )


def connect(
    address: str,
    *,
    token: str | None = None,
    client: str | None = None,
    patience_s: float = PATIENCE_S,
) -> Site:
    """A site by the address of its HTTP server; nothing is sent yet.

    Parameters
    ----------
    address
        Such as `http://127.0.0.1:8080`. A stream's own address, as `vivace status --json` says it,
        serves too.
    token
        What the site asks for.
    client
        Name of this client, by which its batches are told from those of others. One program at a
        time may use it for a stream, in one `Stream`. Without it, every `Stream` has a name of its
        own.
    patience_s
        How long a site may be away or full.

    Raises
    ------
    ValueError
        It is no such address.
    """
    return Site(address, token, client, patience_s)


class Site:
    """A site of a cluster; see `connect`."""

    def __init__(
        self, address: str, token: str | None, client: str | None, patience_s: float
    ) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError(f"{address!r} is no address of a site; write http://HOST:PORT")
        self._secure, self._place = parts.scheme == "https", parts.netloc
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._client = client
        self.patience_s = patience_s

    def stream(self, name: str) -> Stream:
        """A stream that enters at the site."""
        return Stream(self, name, self._client or uuid.uuid4().hex)

    def results(
        self, name: str, *, after: tuple[int, int] | None = None, begin: int | str = 0
    ) -> Iterator[pa.RecordBatch]:
        """The tuples of an output, for ever, each once.

        Batches have the columns `_generation`, `_seq` and `_ts` before those of the stream.

        Parameters
        ----------
        after
            Generation and sequence number of the last tuple that is known already.
        begin
            Without `after`: the sequence number to begin with, or `now`.

        Raises
        ------
        Refused
            There is no such output, or the token is wrong.
        Unavailable
            The site was away for too long.
        """
        waiting = Patience(self.patience_s)
        while True:
            query = f"?from={begin}" if after is None else f"?after={after[0]}-{after[1]}"
            try:
                for batch in self._batches(name, query):
                    waiting.succeeded()
                    if batch.num_rows:
                        last = batch.slice(batch.num_rows - 1).to_pylist()[0]
                        after = last["_generation"], last["_seq"]
                        yield batch
            except (OSError, http.client.HTTPException, pa.ArrowException, EOFError) as error:
                waiting.failed(error)
            else:
                waiting.failed(ConnectionError("the site has ended the response"))

    async def results_async(self, name: str, **where: Any) -> AsyncIterator[pa.RecordBatch]:
        """As `results`, in an event loop."""
        batches = self.results(name, **where)
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            yield batch

    def _batches(self, name: str, query: str) -> Iterator[pa.RecordBatch]:
        connection = self.connection(SILENCE_S)
        try:
            path = f"/streams/{quote(name, safe='')}{query}"
            connection.request("GET", path, headers={**self._headers, "Accept": ARROW})
            response = connection.getresponse()
            if response.status != http.client.OK:
                _raise(response.status, response.read())
            yield from ipc.open_stream(response)
        finally:
            connection.close()

    def connection(self, timeout_s: float) -> http.client.HTTPConnection:
        """A connection that is not open yet."""
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return kind(self._place, timeout=timeout_s)

    @property
    def headers(self) -> Mapping[str, str]:
        """Of every request."""
        return self._headers


class Stream:
    """A stream that enters at a site. Threads may share it."""

    def __init__(self, site: Site, name: str, client: str) -> None:
        self._site = site
        self._path = f"/streams/{quote(name, safe='')}"
        self._client = client
        self._number = 0
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None

    def send(self, rows: Rows, *, number: int | None = None) -> Sent:
        """Send tuples; returns when the site has them for good.

        Parameters
        ----------
        number
            Of the batch, rising from one to the next. Without it, it is sent in pieces that are
            small enough for the site, under numbers of their own.

        Raises
        ------
        Refused
            The rows are not of the stream's form, or the token is wrong: nothing entered of them.
        Unavailable
            The site was away or full for too long.
        """
        table = _table(rows)
        if number is not None:
            return self.send_body(_encoded(table), ARROW, number=number)
        sent = Sent()
        most = max(int(PIECE_BYTES / max(table.nbytes / max(table.num_rows, 1), 1)), 1)
        for begin in range(0, table.num_rows, most):
            sent += self.send_body(_encoded(table.slice(begin, most)), ARROW)
        return sent

    async def send_async(self, rows: Rows, *, number: int | None = None) -> Sent:
        """As `send`, in an event loop."""
        return await asyncio.to_thread(self.send, rows, number=number)

    def send_body(self, body: bytes, content_type: str, *, number: int | None = None) -> Sent:
        """Send a batch that is written already: CSV, JSON lines, or Arrow's IPC stream."""
        with self._lock:
            if number is None:
                # Rising, also if a program of the same name was started again.
                number = max(self._number + 1, time.time_ns() // 1000)
            self._number = number
            headers = {
                **self._site.headers,
                "Content-Type": content_type,
                "Vivace-Client": self._client,
                "Vivace-Number": str(number),
            }
            waiting = Patience(self._site.patience_s)
            while True:
                try:
                    status, document = self._post(body, headers)
                except (OSError, http.client.HTTPException) as error:
                    self.close()
                    waiting.failed(error)
                    continue
                if status == http.client.OK:
                    return Sent(**json.loads(document))
                if status not in (
                    http.client.TOO_MANY_REQUESTS,
                    http.client.SERVICE_UNAVAILABLE,
                ):
                    _raise(status, document)
                waiting.failed(RuntimeError(_problem(document)))

    def close(self) -> None:
        """Close the connection; the next `send` opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _post(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = self._site.connection(RESPONSE_S)
        self._connection.request("POST", self._path, body, dict(headers))
        response = self._connection.getresponse()
        document = response.read()
        if response.will_close:
            self.close()
        return response.status, document


class Patience:
    """How long to try again, and when.

    Parameters
    ----------
    patience_s
        From the first failure after a success.
    sleep
        Waits.
    """

    def __init__(self, patience_s: float, sleep: Callable[[float], None] = time.sleep) -> None:
        self._patience_s = patience_s
        self._sleep = sleep
        self.succeeded()

    def succeeded(self) -> None:
        """The next failure is a first one."""
        self._waited_s, self._next_s = 0.0, FIRST_RETRY_S

    def failed(self, error: Exception) -> None:
        """Wait, or raise if it has lasted too long."""
        if self._waited_s >= self._patience_s:
            raise Unavailable(f"for {self._waited_s:.0f} s: {error}") from error
        self._sleep(self._next_s)
        self._waited_s += self._next_s
        self._next_s = min(2 * self._next_s, LONGEST_RETRY_S)


def _table(rows: Rows) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, Mapping):
        return pa.Table.from_pydict(rows)
    return pa.Table.from_pylist(rows)


def _encoded(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    # What pandas notes in a schema is of no use to the site.
    plain = table.replace_schema_metadata()
    writer = ipc.new_stream(sink, plain.schema)
    writer.write_table(plain)
    writer.close()
    return sink.getvalue()


def _problem(document: bytes) -> str:
    try:
        return str(json.loads(document)["error"])
    except (ValueError, KeyError, TypeError):
        return document[:200].decode("utf-8", "replace")


def _raise(status: int, document: bytes) -> None:
    raise Refused(status, _problem(document))
