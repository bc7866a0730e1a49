"""The HTTP server of a site: streams enter by `POST /streams/NAME`, results leave by `GET`.

All streams of a site that name the same address share one server, a thread a connection. The server
bounds everything that a client may choose: connections, heads, bodies, decompressed bodies, all
bodies that are held at a time, results that readers do not take, and how long a client may be
silent within a request. The bodies of one stream take at most half of the memory that others leave.
So its clients, however slow, leave every other stream some. An error is one JSON document,
`{"error": …}`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import re
import socket
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import Any, NoReturn, cast
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

import msgspec

from foundation.bounds import MOST_DIGITS
from orchestrator.edges.held_parts import HeldParts
from orchestrator.edges.listening import Endpoint, same_token

MOST_CONNECTIONS = 128

SILENCE_S = 60.0
"""How long a connection may be silent."""

HELD_BYTES = 128 * 2**20
"""Bodies that a server holds at a time, if the process may: of one stream at most half of what
others leave."""

LARGEST_SHARE = 4
"""So many bodies of the largest size a server holds anyhow: one of a stream is taken while one
other stream has all that it may."""

READ_BYTES = 2**18

MOST_HEAD_BYTES = 2**16
"""Of the lines before a body; a connection holds them while there is a response."""

DRAIN_S = 2.0
"""How long a refused client may go on sending until its connection is closed."""

JSON = "application/json"

ANYTHING = "*/*"
"""The content types that a client accepts if it names none."""

RETRY_AFTER_S = 1
"""Time after which a client is told to try again if there was no room."""

_sent_again = (
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
    # The site lost parts of a batch, which the client still has.
    HTTPStatus.CONFLICT,
)
"""With these a client is asked to send its request again."""

_quality = re.compile(r"q=([0-9]*\.?[0-9]+)")

_full_document = b'{"error":"too many connections; come again"}\n'

_full = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\nRetry-After: %d\r\nConnection: close\r\n\r\n%s"
) % (len(_full_document), RETRY_AFTER_S, _full_document)

_log = logging.getLogger("vivace.http")


class HttpError(Exception):
    """A request that gets another status than 200.

    Parameters
    ----------
    status
        Of the response.
    problem
        A sentence for people.
    headers
        Of the response.
    """

    def __init__(
        self, status: HTTPStatus, problem: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(problem)
        self.status = status
        self.headers = dict(headers or {})


def busy(problem: str) -> HttpError:
    """The client should come again."""
    return HttpError(HTTPStatus.TOO_MANY_REQUESTS, problem, {"Retry-After": str(RETRY_AFTER_S)})


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRequest:
    """A request to a stream.

    Attributes
    ----------
    headers
        Names in small letters.
    query
        Parameters of the address, the last of each name.
    body
        Decompressed; empty for GET.
    """

    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes = b""

    def check_parameters(self, what: str, *known: str) -> None:
        """Refuse a parameter that is unknown.

        Parameters
        ----------
        what
            Has the parameters.

        Raises
        ------
        HttpError
            There is one that is none of these.
        """
        if unknown := [name for name in self.query if name not in known]:
            problem = f"{what} has no parameter {unknown[0][:100]!r}; it has "
            problem += ", ".join(known) or "none"
            raise HttpError(HTTPStatus.BAD_REQUEST, problem)

    def preferred(self, what: str, *types: str) -> str:
        """The content type that the client prefers, or the first of several.

        Parameters
        ----------
        what
            Of what, for the refusal, such as `results come`.

        Raises
        ------
        HttpError
            It accepts none of them.
        """
        accept = self.headers.get("accept") or ANYTHING
        best = max(types, key=lambda each: _preference(each, accept))
        if not _preference(best, accept)[0]:
            problem = f"{what} as {' or '.join(types)}, not as {accept[:100]}"
            raise HttpError(HTTPStatus.NOT_ACCEPTABLE, problem)
        return best


def _preference(content_type: str, accept: str) -> tuple[float, int]:
    """How much a client prefers a type: its quality, and how closely that is said of it."""
    qualities: dict[str, float] = {}
    for media_range in accept.lower().split(","):
        name, *parameters = (each.strip() for each in media_range.split(";"))
        found = (_quality.fullmatch(each) for each in parameters)
        qualities[name] = next((float(each[1]) for each in found if each), 1.0)
    kind = content_type.partition("/")[0]
    for closeness, name in ((2, content_type), (1, f"{kind}/*"), (0, ANYTHING)):
        if name in qualities:
            return qualities[name], closeness
    return 0.0, 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """A response without end.

    Attributes
    ----------
    content_type
        Of all parts together.
    parts
        Sent as they come. Closed when the client has gone.
    headers
        Further ones.
    dropped
        Called when a client that did not take its response has lost its connection.
    """

    content_type: str
    parts: Iterator[bytes]
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    dropped: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How a server serves a stream.

    Attributes
    ----------
    token
        The token that a client must show; None: none.
    get
        Responds to GET.
    post
        Responds to POST; None: nothing enters here.
    refused
        Told why a POST was refused for good, and its body if it had come.
    has_room
        Whether a body would be taken now.
    most_bytes
        Greatest body, decompressed.
    """

    token: str | None
    get: Callable[[StreamRequest], Streamed | object]
    post: Callable[[StreamRequest], object] | None = None
    refused: Callable[[str, bytes], None] = lambda _reason, _body: None
    has_room: Callable[[], bool] = lambda: True
    most_bytes: int = 0


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, endpoint: Endpoint) -> None:
        self.address_family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
        super().__init__((endpoint.host, endpoint.port), _Handler)
        self.routes: dict[str, Route] = {}
        self.lock = threading.Lock()
        self.held_bytes = Counter[str]()
        """Of bodies, by stream."""
        self._connections: set[socket.socket] = set()
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)

    @property
    def most_held_bytes(self) -> int:
        """Memory that all bodies may take; called within the lock."""
        largest = max((route.most_bytes for route in self.routes.values()), default=0)
        return min(HELD_BYTES, max(_bounds.body_bytes, LARGEST_SHARE * largest))

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            with contextlib.suppress(OSError):
                request.sendall(_full)
            self.shutdown_request(request)
            return
        with self.lock:
            self._connections.add(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self.lock:
                self._connections.discard(request)
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.debug("a connection failed", exc_info=True)

    def end(self) -> None:
        """End all connections, and listen no more."""
        self.shutdown()
        self.server_close()
        with self.lock:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Head:
    """The lines of a head, which are few enough together."""

    def __init__(self, file: BufferedIOBase) -> None:
        self._file = file
        self._left = MOST_HEAD_BYTES

    def readline(self, size: int) -> bytes:
        line = self._file.readline(min(size, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise LineTooLong("head")
        return line


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "vivace"
    sys_version = ""
    timeout = SILENCE_S
    disable_nagle_algorithm = True
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        self._respond(self._get)

    def do_POST(self) -> None:
        self._respond(self._post)

    def log_message(self, format: str, *args: Any) -> None:
        # Headers hold tokens, addresses may.
        return

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request that cannot be read, or has a method that no stream takes."""
        status = HTTPStatus(code)
        problem = message or explain or status.phrase
        headers: dict[str, str] = {}
        if status is HTTPStatus.NOT_IMPLEMENTED:
            # The base class says so of any method for which there is no function.
            status = HTTPStatus.METHOD_NOT_ALLOWED
            problem = f"streams take GET and POST, not {self.command[:50]}"
            headers["Allow"] = "GET, POST"
        # A line that is no request counts as version 0.9, whose responses have no headers.
        self.request_version = self.protocol_version
        self._refuse(HttpError(status, problem, headers))

    def parse_request(self) -> bool:
        """Read the head, of bounded size."""
        whole, self.rfile = self.rfile, cast("BufferedIOBase", _Head(self.rfile))
        try:
            return super().parse_request()
        finally:
            self.rfile = whole

    def _respond(self, handle: Callable[[], Streamed | object]) -> None:
        try:
            response = handle()
        except HttpError as error:
            self._refuse(error)
        except (OSError, ValueError) as error:
            _log.debug("a request broke: %s", error)
            self.close_connection = True
        else:
            if isinstance(response, Streamed):
                self._stream(response)
            else:
                self._document(HTTPStatus.OK, response, {})

    def _refuse(self, error: HttpError) -> None:
        # The rest of the body would be taken for the next request.
        self.close_connection = True
        document = {"error": str(error)}
        self._document(error.status, document, {**error.headers, "Connection": "close"})
        self._drain()

    def _get(self) -> Streamed | object:
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            # Its body, which nobody reads, would be taken for the next request.
            self.close_connection = True
        _, route = self._route()
        return route.get(self._request(route))

    def _post(self) -> object:
        name, route = self._route()
        body = b""
        with self._holding(name) as hold:
            try:
                request = self._request(route)
                if route.post is None:
                    problem = "nothing enters here: the stream is an output"
                    raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, problem, {"Allow": "GET"})
                request.check_parameters("an input")
                if not route.has_room():
                    raise busy("consumers do not follow; send this again")
                body = self._body(route.most_bytes, hold)
                return route.post(dataclasses.replace(request, body=body))
            except HttpError as error:
                if error.status not in _sent_again:
                    route.refused(str(error), body)
                raise

    def _route(self) -> tuple[str, Route]:
        """The stream that a request is about."""
        path = self._target().path
        segments = path.strip("/").split("/")
        name = unquote(segments[1]) if len(segments) == 2 and segments[0] == "streams" else ""
        with self.server.lock:
            route = self.server.routes.get(name)
        if route is None:
            raise HttpError(HTTPStatus.NOT_FOUND, f"no stream is at {path[:200]!r} here")
        return name, route

    def _target(self) -> SplitResult:
        try:
            return urlsplit(self.path)
        except ValueError:
            problem = f"{self.path[:200]!r} is no address of a request"
            raise HttpError(HTTPStatus.BAD_REQUEST, problem) from None

    def _request(self, route: Route) -> StreamRequest:
        """The request without its body, if its sender may say it."""
        headers = {
            # Lines of one name are one list.
            key.lower(): ", ".join(self.headers.get_all(key, []))
            for key in self.headers
        }
        if route.token is not None:
            scheme, _, given = headers.get("authorization", "").partition(" ")
            is_given = scheme.lower() == "bearer" and bool(given.strip())
            if not is_given or not same_token(given.strip(), route.token):
                needed = "a token is needed: Authorization: Bearer …"
                problem = "the token is not the stream's" if is_given else needed
                raise HttpError(HTTPStatus.UNAUTHORIZED, problem, {"WWW-Authenticate": "Bearer"})
        query = parse_qs(self._target().query, keep_blank_values=True)
        return StreamRequest(
            headers=headers, query={key: values[-1] for key, values in query.items()}
        )

    @contextlib.contextmanager
    def _holding(self, stream: str) -> Generator[Callable[[int], None]]:
        """Memory for the part of a body that has come to a stream, until the end of a block."""
        held = 0

        def hold(size_bytes: int) -> None:
            nonlocal held
            with self.server.lock:
                all_held = self.server.held_bytes
                free_bytes = self.server.most_held_bytes - all_held.total() - size_bytes
                if all_held[stream] + size_bytes > free_bytes:
                    raise busy("too many requests at a time; send this again")
                all_held[stream] += size_bytes
            held += size_bytes

        try:
            yield hold
        finally:
            with self.server.lock:
                self.server.held_bytes[stream] -= held

    def _drain(self) -> None:
        """Let a client finish sending its body: it reads the response afterwards."""
        until_s = time.monotonic() + DRAIN_S
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            while (left_s := until_s - time.monotonic()) > 0:
                self.connection.settimeout(left_s)
                if not self.connection.recv(READ_BYTES):
                    return

    def _body(self, most_bytes: int, hold: Callable[[int], None]) -> bytes:
        encoding = self.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip", ""):
            raise HttpError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Encoding {encoding[:50]!r}: use gzip"
            )
        # In one piece: chunks may be as small as a client likes.
        body = bytearray()
        unzip = zlib.decompressobj(wbits=31) if encoding == "gzip" else None
        for part in self._received(most_bytes):
            if unzip is not None:
                try:
                    part = unzip.decompress(part, most_bytes + 1 - len(body))
                except zlib.error as error:
                    raise HttpError(HTTPStatus.BAD_REQUEST, f"no gzip: {error}") from None
                if unzip.unused_data:
                    # It would be gathered.
                    raise HttpError(HTTPStatus.BAD_REQUEST, "something follows the gzip body")
            body += part
            if len(body) > most_bytes:
                _too_large(most_bytes)
            hold(len(part))
        if unzip is not None and not unzip.eof:
            raise HttpError(HTTPStatus.BAD_REQUEST, "the gzip body is incomplete")
        return bytes(body)

    def _received(self, most_bytes: int) -> Iterator[bytes]:
        """The body as it comes."""
        if self.headers.get("Transfer-Encoding", "").strip().lower() == "chunked":
            yield from self._chunks(most_bytes)
            return
        if "Transfer-Encoding" in self.headers:
            raise HttpError(HTTPStatus.NOT_IMPLEMENTED, "use Transfer-Encoding: chunked, or none")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise HttpError(HTTPStatus.LENGTH_REQUIRED, "Content-Length is missing")
        if len(length) > MOST_DIGITS or int(length) > most_bytes:
            _too_large(most_bytes)
        yield from self._exactly(int(length))

    def _exactly(self, length: int) -> Iterator[bytes]:
        while length:
            part = self.rfile.read(min(length, READ_BYTES))
            if not part:
                raise HttpError(HTTPStatus.BAD_REQUEST, "the body ends before it is complete")
            length -= len(part)
            yield part

    def _chunks(self, most_bytes: int) -> Iterator[bytes]:
        left = most_bytes
        while True:
            line = self.rfile.readline(1024)
            digits = line.split(b";")[0].strip()
            try:
                size = int(digits, 16) if digits.isalnum() and len(digits) < 16 else -1
            except ValueError:
                size = -1
            if size < 0:
                raise HttpError(HTTPStatus.BAD_REQUEST, "a chunk has no size")
            if size > left:
                _too_large(most_bytes)
            left -= size
            yield from self._exactly(size)
            if not size:
                # Trailers are of no use here.
                for _ in range(100):
                    if self.rfile.readline(65536) in (b"\r\n", b"\n", b""):
                        return
                raise HttpError(HTTPStatus.BAD_REQUEST, "too many trailers")
            if self.rfile.readline(1024) not in (b"\r\n", b"\n"):
                raise HttpError(HTTPStatus.BAD_REQUEST, "a chunk is longer than it says")

    def _document(self, status: HTTPStatus, document: object, headers: Mapping[str, str]) -> None:
        body = msgspec.json.encode(document) + b"\n"
        with contextlib.suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", JSON)
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    def _stream(self, response: Streamed) -> None:
        is_dropped = False

        def drop() -> None:
            nonlocal is_dropped
            is_dropped = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

        try:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", response.content_type)
            self.send_header("Cache-Control", "no-store")
            self.send_header("Transfer-Encoding", "chunked")
            for name, value in response.headers.items():
                self.send_header(name, value)
            self.end_headers()
            for part in response.parts:
                if part:
                    # In three writes: framed, it would be there twice.
                    with held_parts.holding(len(part), drop):
                        self.wfile.write(b"%x\r\n" % len(part))
                        self.wfile.write(part)
                        self.wfile.write(b"\r\n")
            self.wfile.write(b"0\r\n\r\n")
        except OSError as error:
            self.close_connection = True
            if is_dropped or isinstance(error, TimeoutError):
                response.dropped()
        finally:
            close = getattr(response.parts, "close", None)
            if close is not None:
                close()


def _too_large(most_bytes: int) -> NoReturn:
    raise HttpError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {most_bytes} bytes"
    )


@dataclass(slots=True)
class _Shared:
    server: _Server
    users: int = 0


@dataclass(slots=True)
class _Servers:
    """The servers of this process by the address that was asked for."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    running: dict[Endpoint, _Shared] = field(default_factory=dict[Endpoint, _Shared])


_servers = _Servers()


@dataclass(slots=True)
class _Bounds:
    body_bytes: int = HELD_BYTES


_bounds = _Bounds()

held_parts = HeldParts()
"""Of all servers of this process."""


def bound(*, body_bytes: int, reader_bytes: int) -> None:
    """Bound the memory that clients hold in this process, over all its servers.

    Parameters
    ----------
    body_bytes
        Of bodies, for each server.
    reader_bytes
        Of results that readers do not take.
    """
    _bounds.body_bytes = body_bytes
    held_parts.most_bytes = reader_bytes


def outputs() -> int:
    """How many streams of this process have readers only."""
    with _servers.lock:
        routes = [r for shared in _servers.running.values() for r in shared.server.routes.values()]
    return sum(route.post is None for route in routes)


def is_served(endpoint: Endpoint) -> bool:
    """Whether a server of this process is there already, which more streams may share."""
    with _servers.lock:
        return endpoint in _servers.running


def serve(endpoint: Endpoint, name: str, route: Route) -> tuple[Endpoint, Callable[[], None]]:
    """Serve a stream; returns its address, and a function that ends it.

    Raises
    ------
    OSError
        The address cannot be used.
    ValueError
        A stream of this name is served there already.
    """
    with _servers.lock:
        shared = _servers.running.get(endpoint)
        is_new = shared is None
        if shared is None:
            shared = _servers.running[endpoint] = _Shared(_Server(endpoint))
        with shared.server.lock:
            if name in shared.server.routes:
                raise ValueError(f"{name} is served at {endpoint} already")
            shared.server.routes[name] = route
        shared.users += 1
        if is_new:
            # Only now: a client that comes at once finds the stream.
            threading.Thread(
                target=shared.server.serve_forever, kwargs={"poll_interval": 0.1},
                name=f"http {endpoint}", daemon=True,
            ).start()  # fmt: skip
    actual = Endpoint(host=endpoint.host, port=shared.server.server_address[1])

    def end() -> None:
        with _servers.lock:
            with shared.server.lock:
                shared.server.routes.pop(name, None)
            shared.users -= 1
            if shared.users:
                return
            del _servers.running[endpoint]
            # Whoever is next to serve there finds the port free.
            shared.server.end()

    return actual, end
