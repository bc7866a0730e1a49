"""Sending tuples from a file or a pipe into a stream."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

import vivace
from orchestrator.api.lines import (
    BadLine,
    Body,
    bad_lines,
    before,
    bodies,
    lines_left,
    sorted_bodies,
    without,
)
from orchestrator.edges.drivers import DriverError
from orchestrator.edges.listening import read_token
from orchestrator.edges.sources import restore
from orchestrator.edges.sources.formats.form_options import row_form
from orchestrator.edges.sources.formats.row_form import Format, RowForm
from orchestrator.edges.sources.http import Http
from orchestrator.errors import EXIT_REFUSED, InvalidInput, Unreachable, VivaceError
from orchestrator.progress import Progress, silent
from orchestrator.records import StreamRecord
from orchestrator.results.streams import SentDocument, StreamEntry

TOKEN_VARIABLE = "VIVACE_TOKEN"
"""Holds the token where the stream's token file is not; it is taken in place of the file's."""

EXIT_PARTLY = 1
"""Exit status of a command that has sent some of the lines."""

_types = {Format.CSV: "text/csv", Format.JSON: "application/x-ndjson"}


REACHED_S = 3.0
"""How long a site may take to be reached, before lines are sent through the cluster's API."""

Relay = Callable[[str, str], SentDocument]
"""Has the cluster's API send lines; takes them, and how they are written."""


class LinesRefused(VivaceError):
    """The site cannot read some lines.

    Parameters
    ----------
    has_sent
        Whether others have been sent before.
    """

    def __init__(self, problem: str, *, has_sent: bool) -> None:
        super().__init__(problem)
        self.exit_status = EXIT_PARTLY if has_sent else EXIT_REFUSED


class TokenMissing(VivaceError):
    """A stream asks for a token, and its file is not here or holds none."""


class SkippedLines:
    """A file that is made for the lines that cannot be read, with the header before them.

    Raises
    ------
    InvalidInput
        It is there already.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_made = False
        self.count = 0
        if path.exists():
            raise InvalidInput(
                "command line", "--skip-bad", str(path), "is there already", "Name a new file."
            )

    def keep(self, body: Body, bad: list[BadLine]) -> None:
        """Add lines of a body."""
        with self._path.open("ab" if self._is_made else "xb") as file:
            if not self._is_made:
                file.write(body.header)
            file.writelines(each.line.rstrip(b"\r\n") + b"\n" for each in bad)
        self._is_made = True
        self.count += len(bad)


def send(
    find: Callable[[], StreamEntry],
    lines: BinaryIO,
    *,
    written: str | None = None,
    is_sorted: bool = False,
    skip_bad: Path | None = None,
    relay: Relay | None = None,
    on_progress: Progress = silent,
) -> SentDocument:
    """Send lines to a stream whose source is `http`, as they come, until they end.

    Parameters
    ----------
    find
        Where the stream enters now: its site may be elsewhere later.
    lines
        CSV with a line that names the columns, or JSON.
    written
        `csv` or `json`; None: as the first line looks.
    is_sorted
        Whether to send them in the order of event time, once all of them are there.
    skip_bad
        A file that is made for lines that cannot be read; the others are sent. None: the first such
        line ends it.
    relay
        Sends where the site cannot be reached from here.

    Raises
    ------
    VivaceError
        There is no such stream, it does not take them, or the site is away.
    """
    # It must be open at first; then its site may be away for a while, and be elsewhere after that.
    entry = find()
    record, stream = entry.stream, entry.stream.name
    opened = None if relay is None or _is_reached(entry.address) else _Relayed(relay)
    if opened is None:
        site = vivace.site(lambda: _where(find), token=_token(record))
        opened = site.stream(stream)
    kept = None if skip_bad is None else SkippedLines(skip_bad)
    sending = _Sending(opened, lines, _form(record), kept)
    format_ = None if written is None else Format(written)
    given = bodies(lines, format_)
    if is_sorted:
        _check_sortable(record)
        given = sorted_bodies(lines, format_, sending.form, sending.refuse)
    try:
        for sent in sending.all(given):
            on_progress("sent", f"{sent.accepted:,} tuples")
    except vivace.Unavailable as error:
        raise Unreachable(
            f"Stream {stream}",
            entry.site,
            f"takes nothing: {error}",
            "Is there a query that reads it? `vivace status` shows what holds it up.",
        ) from None
    total = sending.sent
    return SentDocument(
        stream=stream,
        accepted=total.accepted,
        late=total.late,
        ahead=total.ahead,
        undecided=total.undecided,
        waiting=total.waiting,
        skipped=0 if kept is None else kept.count,
    )


class _Relayed:
    """A stream whose site cannot be reached from here: the cluster's API sends."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def send_body(self, body: bytes, content_type: str) -> vivace.Sent:
        """Send lines, as to the site itself."""
        (written,) = (each for each, kind in _types.items() if kind == content_type)
        try:
            sent = self._relay(body.decode(), written.value)
        except UnicodeDecodeError:
            raise vivace.Refused(HTTPStatus.BAD_REQUEST, "the lines are not UTF-8") from None
        except VivaceError as error:
            if error.report is None or error.report.name != LinesRefused.__name__:
                raise
            raise vivace.Refused(HTTPStatus.BAD_REQUEST, str(error)) from None
        return vivace.Sent(
            accepted=sent.accepted,
            late=sent.late,
            ahead=sent.ahead,
            undecided=sent.undecided,
            waiting=sent.waiting,
        )


def _is_reached(address: str) -> bool:
    parts = urlsplit(address)
    try:
        socket.create_connection((parts.hostname, parts.port or 80), REACHED_S).close()
    except OSError:
        return False
    return True


class _Sending:
    """The bodies of a file on their way into a stream.

    Attributes
    ----------
    form
        The rows that it takes.
    sent
        What became of those that were sent.
    """

    def __init__(
        self,
        opened: vivace.Stream | _Relayed,
        lines: BinaryIO,
        form: RowForm,
        kept: SkippedLines | None,
    ) -> None:
        self.form = form
        self.sent = vivace.Sent()
        self._opened, self._lines, self._kept = opened, lines, kept
        self._has_sent = False

    def all(self, given: Iterator[Body]) -> Iterator[vivace.Sent]:
        """Send bodies; tells what became of all after each."""
        for body in given:
            try:
                self._send(body)
            except vivace.Refused as error:
                self._send_readable(body, error)
            yield self.sent

    def refuse(self, body: Body, bad: list[BadLine]) -> None:
        """Keep lines that cannot be read.

        Raises
        ------
        LinesRefused
            They are not to be left out.
        """
        if self._kept is not None:
            self._kept.keep(body, bad)
            return
        first = bad[0]
        left = lines_left(self._lines, body, first)
        before = "Nothing was sent"
        if self._has_sent:
            unsent = "it and what follows" if left is None else f"the {left:,} lines from it on"
            before = (
                f"{_tuples(self.sent.accepted)} before it were accepted; {unsent} were not sent"
            )
        raise LinesRefused(
            f"line {first.number:,}: {first.reason}. {before}. Correct it and send the rest, or "
            "leave such lines out with --skip-bad FILE",
            has_sent=self._has_sent,
        )

    def _send(self, body: Body) -> None:
        self._has_sent = True
        self.sent += self._opened.send_body(body.content, _types[body.written])

    def _send_readable(self, body: Body, error: vivace.Refused) -> None:
        """Send what can be read of a body that was refused as a whole."""
        bad = bad_lines(self.form, body)[1] if error.status == HTTPStatus.BAD_REQUEST else []
        if not bad:
            raise LinesRefused(
                f"{error}; {self.sent.accepted:,} tuples before were accepted",
                has_sent=bool(self.sent.accepted),
            ) from None
        readable = before(body, bad[0]) if self._kept is None else without(body, bad)
        if readable.lines.strip():
            self._send(readable)
        self.refuse(body, bad)


def _tuples(count: int) -> str:
    return "1 tuple" if count == 1 else f"{count:,} tuples"


def _form(record: StreamRecord) -> RowForm:
    source = None if record.source is None else restore(record.source)
    assert isinstance(source, Http)
    return row_form(source, record.columns, record.fields)


def _check_sortable(record: StreamRecord) -> None:
    if _form(record).time_column is None:
        raise InvalidInput(
            "", "is_sorted", None,
            f"has nothing to go by: tuples of {record.name} get the time of their arrival",
            "Send them without it, or name a column as the stream's `timestamp`.",
        )  # fmt: skip


def _where(find: Callable[[], StreamEntry]) -> str:
    """Its address now."""
    try:
        return find().address
    except Unreachable as error:
        raise ConnectionError(str(error)) from error


def _token(record: StreamRecord) -> str | None:
    path = None if record.source is None else record.source.options.get("token_file")
    if path is not None and (token := os.environ.get(TOKEN_VARIABLE)) is not None:
        return token
    try:
        return read_token(path)
    except DriverError as error:
        raise TokenMissing(
            f"stream {record.name}: {error}. Send from where it can be read, or set "
            f"{TOKEN_VARIABLE} to the token"
        ) from None
