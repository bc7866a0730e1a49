"""The client of a site's HTTP server.

*Once.* What is sent enters once (`vivace.stream`). A program that gives its own name and numbers,
such as the offsets of what it reads, may even be killed and started again.

*Back-pressure.* If the site has no room, `send` waits and tries again.

*Results* come with generation and sequence number. If the connection breaks, the iterator goes on
after the last tuple that it gave.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import quote, urlencode

import pyarrow as pa
from pyarrow import ipc

from vivace.exchange import ARROW, Address, Patience, SiteAddresses, look_elsewhere
from vivace.stream import Stream

PATIENCE_S = 60.0
"""How long a site may be away or full until `send` gives up."""

SILENCE_S = 30.0
"""A site sends results, or a sign of life, at least every ten seconds."""

BEGINS = "Vivace-From"
"""Header of a response that began with what came then."""

_IDENTITY = ("_generation", "_seq")


def site(
    address: Address,
    *others: Address,
    token: str | None = None,
    client: str | None = None,
    patience_s: float = PATIENCE_S,
) -> Site:
    """A site, or two sites of one stream, by the addresses of their HTTP servers.

    Nothing is sent yet.

    Parameters
    ----------
    address
        Such as `http://127.0.0.1:8080`. A stream's own address, as `vivace status --json` says it,
        serves too. A function that finds it is asked for each connection: a site that is started
        again may have another port. It raises `ConnectionError` while there is none.
    others
        Of a stream with `sites: [a, b]`, the other site's: whichever has the stream is sent to.
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
        One is no such address.
    """
    return Site((address, *others), token, client, patience_s)


class Site:
    """A site of a cluster; see `site`."""

    def __init__(
        self, addresses: Sequence[Address], token: str | None, client: str | None, patience_s: float
    ) -> None:
        self._place = SiteAddresses(addresses, token=token, patience_s=patience_s)
        self._client = client

    def stream(self, name: str) -> Stream:
        """A stream that enters at the site."""
        return Stream(self._place.copy(), name, self._client or uuid.uuid4().hex)

    def describe(self, name: str) -> Mapping[str, Any]:
        """What the site says of an output: its columns, and how far its results have come.

        Raises
        ------
        Refused
            There is no such output, or the token is wrong.
        Unavailable
            The site was away for too long.
        """
        place = self._place.copy()
        waiting = Patience(place.address, place.patience_s)
        while True:
            try:
                with closing(place.connection()) as connection:
                    path = f"/streams/{quote(name, safe='')}?describe=1"
                    connection.request("GET", path, headers=dict(place.headers))
                    response = connection.getresponse()
                    status, document = response.status, response.read()
                if status == http.client.OK:
                    place.found.add(name)
                    return json.loads(document)
                look_elsewhere(place, name, status, document)
            except (OSError, http.client.HTTPException) as error:
                place.turn()
                waiting.failed(error)

    def results(
        self,
        name: str,
        *,
        after: tuple[int, int] | None = None,
        begin: int | str | tuple[int, int] = 0,
        until: tuple[int, int] | None = None,
        times_ms: tuple[int | None, int | None] = (None, None),
        columns: Sequence[str] | None = None,
        where: Sequence[tuple[str, str, Any]] = (),
    ) -> Iterator[pa.RecordBatch]:
        """The tuples of an output, each once: for ever, or up to an end.

        Batches have the columns `_generation`, `_seq` and `_ts` before those of the stream, unless
        others are asked for.

        Parameters
        ----------
        after
            Generation and sequence number of the last tuple that is known already.
        begin
            Without `after`: the sequence number to begin with, `now`, or generation and sequence
            number of the first tuple.
        until
            Generation and sequence number; what comes before them is everything.
        times_ms
            First and last timestamp, both included.
        columns
            Those that are wanted.
        where
            Conditions on columns that all hold, such as `("celsius", ">=", 30.0)`; operators are
            `=`, `<`, `<=`, `>`, `>=`, `in`, `null` and `notnull`.

        Raises
        ------
        Refused
            There is no such output, it is an input, or the token is wrong.
        Unavailable
            The site was away for too long.
        """
        wanted = {} if until is None else {"until": f"{until[0]}-{until[1]}"}
        wanted |= {k: v for k, v in zip(("first", "last"), times_ms, strict=True) if v is not None}
        if where:
            wanted["where"] = json.dumps(list(where))
        if columns is not None:
            wanted["columns"] = ",".join(dict.fromkeys((*_IDENTITY, *columns)))
        place = self._place.copy()
        if after is not None or (isinstance(begin, tuple) and begin[0]):
            # Who names a generation has seen it.
            place.found.add(name)
        if isinstance(begin, tuple):
            begin = f"{begin[0]}-{begin[1]}"

        def note_begin(at: str) -> None:
            # Where `now` was, if the connection breaks before the first result.
            nonlocal begin
            begin = at

        waiting = Patience(place.address, place.patience_s)
        while True:
            since = {"from": begin} if after is None else {"after": f"{after[0]}-{after[1]}"}
            try:
                for batch in _batches(place, name, f"?{urlencode(since | wanted)}", note_begin):
                    if batch.num_rows:
                        after = _last(batch)
                        yield batch if columns is None else batch.select(columns)
                    # Here, for the time that a reader takes for a batch is not the site's.
                    waiting.succeeded()
                if "until" in wanted or "last" in wanted:
                    return
            except (OSError, http.client.HTTPException, pa.ArrowException, EOFError) as error:
                place.turn()
                waiting.failed(error)
            else:
                waiting.failed(ConnectionError("the site has ended the response"))

    async def results_async(self, name: str, **where: Any) -> AsyncIterator[pa.RecordBatch]:
        """As `results`, in an event loop."""
        batches = self.results(name, **where)
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            yield batch


def _batches(
    place: SiteAddresses, name: str, query: str, began: Callable[[str], None]
) -> Iterator[pa.RecordBatch]:
    """The results; `began` is told from which place on, if the site says so."""
    with closing(place.connection(SILENCE_S)) as connection:
        path = f"/streams/{quote(name, safe='')}{query}"
        connection.request("GET", path, headers={**place.headers, "Accept": ARROW})
        response = connection.getresponse()
        if response.status != http.client.OK:
            look_elsewhere(place, name, response.status, response.read())
        place.found.add(name)
        if (at := response.headers.get(BEGINS)) is not None:
            began(at)
        yield from ipc.open_stream(response)


def _last(batch: pa.RecordBatch) -> tuple[int, int]:
    """Generation and sequence number of the last tuple of a batch."""
    generation, seq = (batch.column(name)[batch.num_rows - 1].as_py() for name in _IDENTITY)
    return generation, seq
