"""The source driver `tcp`: lines of JSON or CSV over plain connections, as `nc` sends them.

Each connection has a thread, which parses what has come as a whole. A line that cannot be read is
counted and written down with the reason; the others enter. If there is no room, the connection is
not read, so that the client's own writes wait.

A client of plain TCP does not learn what has entered. With `acknowledge`, the site responds with
the number of lines of the connection that are in the journal, a number a line. What is on its way
when a site is killed must be sent again by the client, and may then enter twice: whoever needs more
uses the driver `http`.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
import traceback
from typing import TYPE_CHECKING, ClassVar, Self

from orchestrator.documents.document import Field, Options, Section
from orchestrator.edges.drivers import DriverError
from orchestrator.edges.listening import Endpoint, need_token, read_endpoint, read_token, same_token
from orchestrator.edges.sources.driver import OpenSource, SourceContext
from orchestrator.edges.sources.formats.formats import salvage
from orchestrator.edges.sources.formats.row_form import Format, RowForm
from orchestrator.edges.sources.live.live_input import LiveInput
from orchestrator.edges.sources.live.live_source import LiveSource
from orchestrator.records import SourceAssignment

if TYPE_CHECKING:
    from orchestrator.edges.site_check import SiteCheck

READ_BYTES = 2**18
"""What is read of a connection at once."""

MOST_LINE_BYTES = 2**20
"""A line that is longer ends its connection: it would have to be held in memory."""

MOST_BAD = 1000
"""Lines that cannot be read among those that have come together. A client that sends more sends
another form, and looking for each of them takes long."""

NO_TOKEN = "a connection showed a wrong token, or none"

TOKEN_TIMEOUT_S = 10.0
"""How long a client may take to show its token."""

ACCEPT_PAUSE_S = 0.1
"""Until connections are accepted again that could not be."""

_log = logging.getLogger("vivace.tcp")


class Tcp(LiveSource, frozen=True, kw_only=True):
    """Lines that clients send over TCP.

    Attributes
    ----------
    listen
        Where.
    format
        `csv` or `json`.
    header
        Whether the first line of each connection names the columns (CSV only).
    acknowledge
        Whether the site responds how many lines are in the journal.
    token_file
        If there is one, each connection begins with a line `token …`.
    connections
        How many there may be at a time.
    """

    listen: Endpoint = Endpoint()
    format: Format = Format.CSV
    header: bool = False
    acknowledge: bool = False
    token_file: str | None = None
    connections: int = 64

    pushed: ClassVar[bool] = True
    own_options: ClassVar[Options] = {
        "listen": ("listen", read_endpoint),
        "format": (
            "format",
            lambda field: Format(field.choice([Format.CSV.value, Format.JSON.value])),
        ),
        "header": ("header", Field.boolean),
        "acknowledge": ("acknowledge", Field.boolean),
        "token_file": ("tokenFile", lambda field: str(field.path())),
        "connections": ("connections", Field.count),
    }

    @classmethod
    def read(cls, section: Section) -> Self:
        """The manifest's `from: {tcp: …}`."""
        made = super().read(section)
        need_token(section.get("listen"), made.listen, made.token_file)
        if made.header and made.format is not Format.CSV:
            section.need("header").refuse("is for CSV only", "Remove it, or write `format: csv`.")
        return made

    def check(self, assignment: SourceAssignment, site: SiteCheck) -> None:
        """Look whether the site could listen."""
        super().check(assignment, site)
        site.need_token(self.token_file)
        site.need_port(self.listen, assignment.stream, http=False)

    def open(self, assignment: SourceAssignment, context: SourceContext) -> OpenSource:
        """Listen."""
        token = read_token(self.token_file)
        opened = self.input(assignment, context)
        try:
            listener = Listener(self, self.form(assignment), opened, token)
        except OSError as error:
            opened.close()
            raise DriverError(f"cannot listen at {self.listen}: {error}") from None
        opened.on_close(listener.close)
        opened.start()
        listener.start()
        return opened


class Listener:
    """The connections of one stream."""

    def __init__(self, options: Tcp, form: RowForm, opened: LiveInput, token: str | None) -> None:
        self._options = options
        self._form = form
        self._input = opened
        self._token = token
        address = (options.listen.host, options.listen.port)
        family = socket.AF_INET6 if ":" in options.listen.host else socket.AF_INET
        self._server = socket.create_server(address, family=family)
        port = self._server.getsockname()[1]
        opened.address = str(Endpoint(host=options.listen.host, port=port))
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._closing = False
        self._thread = threading.Thread(
            target=self._accept, name=f"tcp {opened.stream}", daemon=True
        )

    def start(self) -> None:
        """Begin to accept connections."""
        self._thread.start()

    def close(self) -> None:
        """End all connections."""
        self._closing = True
        # A blocked `accept` notices only this.
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closing:
            try:
                connection, _ = self._server.accept()
            except OSError:
                # Not for ever: the process has too many files open, for example.
                time.sleep(ACCEPT_PAUSE_S)
                continue
            with self._lock:
                if self._closing or len(self._connections) >= self._options.connections:
                    connection.close()
                    self._input.rejections.malformed(b"", "a connection too many was refused")
                    continue
                self._connections.add(connection)
            threading.Thread(
                target=self._serve, args=(connection,), name="tcp client", daemon=True
            ).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            Lines(self._options, self._form, self._input, self._token, connection).read()
        except (OSError, DriverError) as error:
            _log.debug("%s: a connection ended: %s", self._input.stream, error)
        except Exception as error:  # noqa: BLE001  It must be seen, whatever it is.
            _log.exception("%s: a connection ended", self._input.stream)
            told = "".join(traceback.format_exception_only(error)).strip()
            self._input.rejections.malformed(b"", f"a connection ended by a fault: {told}")
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()


class Lines:
    """The lines of one connection."""

    def __init__(
        self,
        options: Tcp,
        form: RowForm,
        opened: LiveInput,
        token: str | None,
        connection: socket.socket,
    ) -> None:
        self._options = options
        self._form = form
        self._input = opened
        self._token = token
        self._connection = connection
        self._header: bytes | None = None
        self._count = self._unnumbered = self._bad = 0

    def read(self) -> None:
        """Bring lines in until the client ends.

        Raises
        ------
        OSError
            The connection broke.
        DriverError
            The source has ended.
        """
        rest = b""
        until_s = time.monotonic() + TOKEN_TIMEOUT_S
        try:
            while data := self._received(until_s):
                head, newline, tail = (rest + data).rpartition(b"\n")
                rest = b""
                if newline and not self._take(head):
                    return
                if len(tail) > MOST_LINE_BYTES:
                    self._refuse(tail, f"a line is longer than {MOST_LINE_BYTES} bytes")
                    return
                rest = tail
        finally:
            # Also where it was reset, or a token did not come in time.
            if rest.strip():
                self._refuse(rest, "the connection ended within this line")

    def _received(self, until_s: float) -> bytes:
        """What comes next, by then as long as the token has not come."""
        if self._token is not None:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._connection.settimeout(left_s)
        return self._connection.recv(READ_BYTES)

    def _take(self, body: bytes) -> bool:
        """Bring lines in; False if the connection must end."""
        count, self._bad = body.count(b"\n") + 1, 0
        if self._token is not None:
            first, _, body = body.partition(b"\n")
            self._unnumbered += 1
            count -= 1
            word, _, given = first.decode("utf-8", "replace").strip().partition(" ")
            if word != "token" or not same_token(given, self._token):
                self._refuse(first, NO_TOKEN)
                return False
            self._token = None
            self._connection.settimeout(None)
        while self._options.header and self._header is None and count:
            line, _, body = body.partition(b"\n")
            self._header = line.rstrip(b"\r") or None
            self._unnumbered += 1
            count -= 1
        found = salvage(
            self._form,
            self._options.format,
            body,
            self._reject,
            header=self._header,
            first=self._next_line,
            note=self._input.rejections.ignored,
        )
        for batch in found:
            self._input.push(batch, confirms=self._options.acknowledge)
        self._count += count
        if self._options.acknowledge:
            self._connection.sendall(b"%d\n" % self._count)
        return True

    @property
    def _next_line(self) -> int:
        """Number of the line that comes next, of all of the connection."""
        return self._count + self._unnumbered + 1

    def _refuse(self, line: bytes, reason: str) -> None:
        """Count what is no line; before a token was shown it may be a secret."""
        if self._token is not None:
            line, reason = b"", NO_TOKEN
        else:
            reason = f"line {self._next_line}: {reason}"
        self._input.rejections.malformed(line, reason)

    def _reject(self, number: int, line: bytes, reason: str) -> None:
        self._bad += 1
        reason = f"line {number}: {reason}"
        if self._bad == MOST_BAD:
            reason = f"{MOST_BAD} lines that came together cannot be read; the last: {reason}"
            self._input.rejections.malformed(line, reason)
            raise DriverError(reason)
        self._input.rejections.malformed(line, reason)
