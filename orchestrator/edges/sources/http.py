"""The source driver `http`: batches of JSON lines, CSV or Arrow by `POST /streams/NAME`.

A batch enters as a whole or not at all. The response comes when the site's journal has it, and says
how many of its tuples entered, and how many came too late or lie too far ahead. A client that gets
no response sends the batch again with the same `Idempotency-Key`, or with its name and the same
number (`Vivace-Client`, `Vivace-Number`, the latter rising); it does not enter twice. Other rows
under the same key or number are refused, for they would be dropped.

If there is no room because consumers do not follow, the response is 429 with `Retry-After`.

A batch may also come in parts that enter together (`orchestrator.edges.sources.live.batches`): each
part with the header `Vivace-Part` besides client and number, and then the list of the parts.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import msgspec
import pyarrow as pa

from foundation.bounds import MAX_NUMBER, MOST_DIGITS, Name
from orchestrator.documents.document import Field, Options, Section
from orchestrator.documents.units import memory_bytes
from orchestrator.edges.drivers import DriverError
from orchestrator.edges.http_server import (
    HELD_BYTES,
    JSON,
    LARGEST_SHARE,
    RETRY_AFTER_S,
    HttpError,
    Route,
    StreamRequest,
    busy,
    serve,
)
from orchestrator.edges.listening import Endpoint, need_token, read_endpoint, read_token
from orchestrator.edges.sources.driver import OpenSource, SourceContext
from orchestrator.edges.sources.formats.formats import parse
from orchestrator.edges.sources.formats.row_form import Format, RowForm, Unreadable
from orchestrator.edges.sources.live.batches import MOST_NUMBER, Batches, Missing, TooLarge
from orchestrator.edges.sources.live.ingestion import BatchOutcome, Full, OtherRows
from orchestrator.edges.sources.live.live_input import LiveInput
from orchestrator.edges.sources.live.live_source import LiveSource
from orchestrator.records import SourceAssignment
from streams.vectors.row_digest import digest_of

if TYPE_CHECKING:
    from orchestrator.edges.site_check import SiteCheck

BATCHES = "batches"
"""Folder of batches in parts, in the site's."""

MOST_KEY = 128
"""Characters of a client's name or key."""

LARGEST_BYTES = HELD_BYTES // LARGEST_SHARE
"""Of any manifest's `largest`: what a server holds for a stream when one other takes all it may."""

COMMIT = "application/vnd.vivace.commit+json"
"""Type of a body that lists the parts of a batch."""

ABORT = "application/vnd.vivace.abort+json"
"""Type of a body that drops them."""


class BatchParts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a batch consists of."""

    parts: Annotated[list[Name], msgspec.Meta(max_length=100_000)] = []


_parts = msgspec.json.Decoder(BatchParts)

_types = {
    "text/csv": Format.CSV,
    "application/json": Format.JSON,
    "application/jsonl": Format.JSON,
    "application/x-ndjson": Format.JSON,
    "application/x-jsonlines": Format.JSON,
    "application/vnd.apache.arrow.stream": Format.ARROW,
}

_untold = ("", "application/x-www-form-urlencoded", "application/octet-stream", "text/plain")
"""What clients say that were not told the type of the body, such as curl."""


class Http(LiveSource, frozen=True, kw_only=True):
    """Batches that clients post.

    Attributes
    ----------
    listen
        Where.
    token_file
        If there is one, clients show the token in it.
    largest_bytes
        Of a body, decompressed.
    staged_bytes
        Of the parts of batches that have not been committed.
    """

    listen: Endpoint = Endpoint()
    token_file: str | None = None
    largest_bytes: int = 16 * 2**20
    staged_bytes: int = 2**30

    pushed: ClassVar[bool] = True
    own_options: ClassVar[Options] = {
        "listen": ("listen", read_endpoint),
        "token_file": ("tokenFile", lambda field: str(field.path())),
        "largest_bytes": ("largest", lambda field: _largest(field)),
        "staged_bytes": ("staged", lambda field: field.quantity(memory_bytes, positive=True)),
    }

    @classmethod
    def read(cls, section: Section) -> Self:
        """The manifest's `from: {http: …}`."""
        made = super().read(section)
        need_token(section.get("listen"), made.listen, made.token_file)
        return made

    def check(self, assignment: SourceAssignment, site: SiteCheck) -> None:
        """Look whether the site could listen."""
        super().check(assignment, site)
        site.need_token(self.token_file)
        site.need_port(self.listen, assignment.stream, http=True)

    def open(self, assignment: SourceAssignment, context: SourceContext) -> OpenSource:
        """Listen."""
        token = read_token(self.token_file)
        opened = self.input(assignment, context)
        form = self.form(assignment)
        batches = None
        try:
            if (folder := self.folder(assignment, context, BATCHES)) is not None:
                batches = Batches(folder, form.schema, opened, most_bytes=self.staged_bytes)
        except OSError as error:
            opened.close()
            raise DriverError(f"the batches cannot be kept: {error}") from None
        posts = Posts(form, opened, batches)

        def state(request: StreamRequest) -> object:
            what = f"{assignment.stream} is an input, which has no results: its state comes"
            request.preferred(what, JSON)
            request.check_parameters("an input")
            return opened.status

        route = Route(
            token=token,
            get=state,
            post=posts.post,
            refused=lambda reason, body: opened.rejections.malformed(body, reason),
            has_room=lambda: opened.has_room,
            most_bytes=self.largest_bytes,
        )
        try:
            address, end = serve(self.listen, assignment.stream, route)
        except (OSError, ValueError) as error:
            opened.close()
            raise DriverError(f"cannot listen at {self.listen}: {error}") from None
        opened.address = f"http://{address}/streams/{assignment.stream}"
        opened.on_close(end)
        opened.start()
        if batches is not None:
            batches.start()
        return opened


class Posts:
    """What clients post to one stream; `batches` is None if none may come in parts."""

    def __init__(self, form: RowForm, opened: LiveInput, batches: Batches | None = None) -> None:
        self._form = form
        self._input = opened
        self._batches = batches

    def post(self, request: StreamRequest) -> object:
        """Bring a batch in, or a part of one."""
        client, number = _identity(request)
        if _kind(request) in (COMMIT, ABORT) or "vivace-part" in request.headers:
            if self._batches is None:
                raise HttpError(
                    HTTPStatus.BAD_REQUEST,
                    "batches in parts need a journal: `durable: machine`, or `process`; no `shed`",
                )
            if not client or number >= MOST_NUMBER:
                raise HttpError(
                    HTTPStatus.BAD_REQUEST,
                    f"a batch in parts has Vivace-Client and a number below {MOST_NUMBER}",
                )
            try:
                return self._in_parts(self._batches, request, client, number)
            except Full:
                raise busy("other batches are entering; send this again") from None
            except (DriverError, OSError) as error:
                raise _unavailable(error) from None
        rows = self._rows(request)
        digest = digest_of(rows) if client else None
        try:
            taken = self._input.push(rows, client=client, number=number, digest=digest, waits=False)
        except OtherRows as error:
            raise _other(error) from None
        except Full as error:
            raise busy(f"{error}; send this again") from None
        except DriverError as error:
            raise _unavailable(error) from None
        return _told(taken)

    def _rows(self, request: StreamRequest) -> pa.RecordBatch:
        written, header = _format(request)
        try:
            return parse(
                self._form,
                written,
                request.body,
                header=header,
                note=self._input.rejections.ignored,
            )
        except Unreadable as error:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"nothing entered: {error}") from None

    def _in_parts(
        self, batches: Batches, request: StreamRequest, client: str, number: int
    ) -> object:
        kind = _kind(request)
        try:
            if kind == COMMIT:
                parts = _parts.decode(request.body).parts
                return _told(batches.commit(client, number, parts))
            if kind == ABORT:
                batches.abort(client, number)
                return {"aborted": True}
            rows = self._rows(request)
            batches.stage(client, number, request.headers["vivace-part"], rows)
        except OtherRows as error:
            raise _other(error) from None
        except TooLarge as error:
            raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error)) from None
        except Missing as error:
            raise HttpError(HTTPStatus.CONFLICT, str(error)) from None
        except (ValueError, msgspec.DecodeError) as error:
            raise HttpError(HTTPStatus.BAD_REQUEST, str(error)) from None
        return {"staged": rows.num_rows}


def _told(taken: BatchOutcome) -> dict[str, int | bool]:
    """The response."""
    told: dict[str, int | bool] = {
        "accepted": taken.accepted,
        "late": taken.late,
        "ahead": taken.ahead,
        "repeated": taken.repeated,
    }
    rarer = {"waiting": taken.waiting, "undecided": taken.undecided}
    return told | {name: count for name, count in rarer.items() if count}


def _kind(request: StreamRequest) -> str:
    """The type of a body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _unavailable(error: Exception) -> HttpError:
    return HttpError(
        HTTPStatus.SERVICE_UNAVAILABLE, str(error), {"Retry-After": str(RETRY_AFTER_S)}
    )


def _other(error: OtherRows) -> HttpError:
    return HttpError(HTTPStatus.UNPROCESSABLE_ENTITY, f"nothing entered: {error}")


def _identity(request: StreamRequest) -> tuple[str, int]:
    """Client and number of a batch; no client if it has neither."""
    key = request.headers.get("idempotency-key")
    client, number = (request.headers.get(f"vivace-{name}") for name in ("client", "number"))
    for name in (key, client):
        if name is not None and not (0 < len(name) <= MOST_KEY and name.isprintable()):
            raise HttpError(
                HTTPStatus.BAD_REQUEST, f"a key or client has 1 to {MOST_KEY} printable characters"
            )
    if key is not None:
        return f"key {key}", 0
    if client is None and number is None:
        return "", 0
    if client is None or number is None:
        raise HttpError(HTTPStatus.BAD_REQUEST, "Vivace-Client and Vivace-Number belong together")
    digits = number.isascii() and number.isdigit() and len(number) <= MOST_DIGITS
    if not (digits and int(number) <= MAX_NUMBER):
        raise HttpError(HTTPStatus.BAD_REQUEST, "Vivace-Number is no whole number from 0 on")
    return f"client {client}", int(number)


def _format(request: StreamRequest) -> tuple[Format, bool]:
    """The form of a body, and whether it names its columns (CSV)."""
    kind, *parameters = [p.strip() for p in request.headers.get("content-type", "").split(";")]
    header = "header=absent" not in [parameter.lower() for parameter in parameters]
    found = _types.get(kind.lower())
    if found is not None:
        return found, header
    if kind.lower() not in _untold:
        raise HttpError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"Content-Type {kind[:100]!r} is unknown; use one of {', '.join(_types)}",
        )
    if request.body.startswith(b"\xff\xff\xff\xff"):
        return Format.ARROW, header
    return (Format.JSON if request.body.lstrip()[:1] == b"{" else Format.CSV), header


def _largest(field: Field) -> int:
    size = field.quantity(memory_bytes, positive=True)
    if size > LARGEST_BYTES:
        most = f"{LARGEST_BYTES // 2**20}m"
        field.refuse("is more than a site holds of one request", f"Write {most} or less.")
    return size
