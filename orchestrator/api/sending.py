"""Sending tuples from a file or a pipe into a stream."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from orchestrator.api.connection import Cluster
from orchestrator.control.view import ClusterView, read_view
from orchestrator.drivers import DriverError
from orchestrator.errors import InvalidInput, Unreachable, VivaceError
from orchestrator.listening import read_token
from orchestrator.progress import Progress, silent
from topology.suggestions import nearest

TOKEN_VARIABLE = "VIVACE_TOKEN"
"""Holds the token where the stream's token file is not; it is taken in place of the file's."""

BODY_BYTES = 2**20
"""Lines that are sent together, if so many are there."""

MOST_LINE_BYTES = 2**20

_types = {"csv": "text/csv", "json": "application/x-ndjson"}


class SentDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the tuples: those that entered, those that came too late or lie too far ahead,
    and those of which the site cannot tell (`vivace.Sent`)."""

    stream: str
    accepted: int
    late: int
    ahead: int
    undecided: int = 0


class LinesRefused(VivaceError):
    """The site cannot read some lines; those before them have entered."""


class TokenMissing(VivaceError):
    """A stream asks for a token, and its file is not here or holds none."""


def send(
    cluster: Cluster,
    stream: str,
    lines: BinaryIO,
    *,
    written: str | None = None,
    on_progress: Progress = silent,
) -> SentDocument:
    """Send lines to a stream whose source is `http`, as they come, until they end.

    Parameters
    ----------
    lines
        CSV with a line that names the columns, or JSON.
    written
        `csv` or `json`; None: as the first line looks.

    Raises
    ------
    VivaceError
        There is no such stream, it does not take them, or the site is away.
    """
    import vivace

    view = read_view(cluster.store)
    # It must be open at first; then its site may be away for a while, and be elsewhere after that.
    _address(view, stream)
    site = vivace.connect(lambda: _where(cluster, stream), token=_token(view, stream))
    opened = site.stream(stream)
    total = vivace.Sent()
    for body, content_type in _bodies(lines, written):
        try:
            total += opened.send_body(body, content_type)
        except vivace.Refused as error:
            before = (
                f"{total.accepted:,} tuples entered; of the next ones " if total.accepted else ""
            )
            raise LinesRefused(f"stream {stream}: {before}{error}") from None
        except vivace.Unavailable as error:
            raise Unreachable(
                f"Stream {stream}",
                view.stream_records[stream].feeding_site,
                f"takes nothing: {error}",
                "Is there a query that reads it? `vivace status` shows what holds it up.",
            ) from None
        on_progress("sent", f"{total.accepted:,} tuples")
    return SentDocument(
        stream=stream,
        accepted=total.accepted,
        late=total.late,
        ahead=total.ahead,
        undecided=total.undecided,
    )


def opened(path: Path) -> BinaryIO:
    """A file of lines.

    Raises
    ------
    InvalidInput
        It cannot be read.
    """
    try:
        return path.open("rb", buffering=0)
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise InvalidInput("command line", "FILE", str(path), problem, "Check the path.") from None


def _address(view: ClusterView, stream: str) -> str:
    records = view.stream_records
    if stream not in records:
        raise InvalidInput(
            "command line", "STREAM", stream, "is no stream from outside", nearest(stream, records)
        )
    record = records[stream]
    if record.source is None or record.source.driver != "http":
        problem = "takes no lines: it has no source"
        if record.source is not None:
            problem = f"takes no lines: its source is `{record.source.driver}`"
        open_ones = sorted(
            name for name, each in records.items() if each.source and each.source.driver == "http"
        )
        here = ", ".join(open_ones) or "none"
        raise InvalidInput(
            "command line",
            "STREAM",
            stream,
            problem,
            f"Only streams with `from: http` take lines; here: {here}.",
        )
    site = view.hosts.get(record.feeding_site)
    status = None if site is None else site.sources.get(stream)
    if status is None or status.input is None or status.input.address is None:
        raise Unreachable(
            f"Stream {stream}", record.feeding_site, "is not open", "`vivace status` says why."
        )
    return status.input.address


def _where(cluster: Cluster, stream: str) -> str:
    """Its address now."""
    try:
        return _address(read_view(cluster.store), stream)
    except Unreachable as error:
        raise ConnectionError(str(error)) from error


def _token(view: ClusterView, stream: str) -> str | None:
    source = view.stream_records[stream].source
    path = None if source is None else source.options.get("token_file")
    if path is not None and (token := os.environ.get(TOKEN_VARIABLE)) is not None:
        return token
    try:
        return read_token(path)
    except DriverError as error:
        raise TokenMissing(
            f"stream {stream}: {error}. Send from where it can be read, or set {TOKEN_VARIABLE} to "
            "the token"
        ) from None


def _bodies(lines: BinaryIO, written: str | None) -> Iterator[tuple[bytes, str]]:
    """Whole lines with their type, together as far as they are there; CSV with its header.

    A header without lines is sent, too: it may be a tuple of a file that lacks its header, which
    the site then refuses.
    """
    header = b""
    bodies = 0
    for part in _parts(lines):
        body = part
        if written is None:
            written = "json" if body.lstrip()[:1] == b"{" else "csv"
        if written == "csv" and not header:
            header, _, body = body.partition(b"\n")
            header += b"\n"
        if body.strip():
            bodies += 1
            yield header + body, _types[written]
    if header and not bodies:
        yield header, _types["csv"]


def _parts(lines: BinaryIO) -> Iterator[bytes]:
    """Whole lines, as many as are there."""
    rest = b""
    number = lines.fileno()
    while data := os.read(number, BODY_BYTES):
        rest += data
        if len(rest) < BODY_BYTES and _has_more(number):
            continue
        whole, newline, rest = rest.rpartition(b"\n")
        if newline:
            yield whole + newline
        if len(rest) > MOST_LINE_BYTES:
            raise InvalidInput(
                "command line", "FILE", None, "has a line that is too long", "Send shorter lines."
            )
    if rest.strip():
        yield rest if rest.endswith(b"\n") else rest + b"\n"


def _has_more(number: int) -> bool:
    """Whether a read would return at once."""
    return bool(select.select([number], [], [], 0)[0])
