"""Whether a process works, for whoever supervises it: `/livez` and `/readyz` over HTTP.

`VIVACE_HEALTH` names the port. The server is a thread of its own that reads what the process's
threads have noted last. So no request waits for them, and none delays them. It is bounded: in
connections, in the size of a request, and in the time that a request may take. Anybody who reaches
the port may ask: a response is a status and one word.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Generator, Mapping
from http import HTTPStatus

from orchestrator.edges.listening import Endpoint, parse_endpoint
from orchestrator.errors import InvalidInput

HEALTH_VARIABLE = "VIVACE_HEALTH"

TURNED_S = 60.0
"""A process whose loop has not turned for so long does not live."""

STARTING_S = 300.0
"""Time until the first turn, once nothing is awaited any more: Spark starts in it."""

REQUEST_S = 2.0
"""Time within which a request must have come and its response be taken."""

MOST_CONNECTIONS = 64

MOST_REQUEST_BYTES = 2**13

_log = logging.getLogger("vivace.health")


class Health:
    """What the loop of a process has noted last.

    Parameters
    ----------
    now_s
        The process's clock.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._until_s = now_s() + STARTING_S
        self._ready = False

    def turned(self, *, ready: bool = False) -> None:
        """Note that the loop turns, and whether the process does its work."""
        self._until_s, self._ready = self._now_s() + TURNED_S, ready

    def waits(self) -> None:
        """Note that the process waits for another one, and starts once that is there."""
        self._until_s, self._ready = self._now_s() + STARTING_S, False

    @property
    def lives(self) -> bool:
        """Whether the loop has turned lately, or the process has just started."""
        return self._now_s() < self._until_s

    @property
    def ready(self) -> bool:
        """Whether the process lives and does its work."""
        return self._ready and self.lives


@contextlib.contextmanager
def served(
    health: Health, environment: Mapping[str, str] = os.environ
) -> Generator[Endpoint | None]:
    """Serve a process's health where the variable says, if it is set; gives the address.

    Raises
    ------
    InvalidInput
        The variable holds no address, or one at which the process cannot listen.
    """
    text = environment.get(HEALTH_VARIABLE)
    if not text:
        yield None
        return
    endpoint = parse_endpoint(text)
    if endpoint is None:
        raise _refused(text, "is no address to listen at")
    server = _HealthServer(health)
    try:
        address = server.start(endpoint)
    except OSError as error:
        raise _refused(text, f"cannot be listened at ({error.strerror})") from None
    _log.info("health at http://%s/livez and /readyz", address)
    try:
        yield address
    finally:
        server.stop()


def _refused(text: str, problem: str) -> InvalidInput:
    remedy = "Write a free port, such as 9650, or 0.0.0.0:9650; 0 for any."
    return InvalidInput("environment", HEALTH_VARIABLE, text, problem, remedy)


class _HealthServer:
    """Responds on a thread of its own."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._loop = asyncio.new_event_loop()
        self._connections = 0
        self._thread = threading.Thread(target=self._loop.run_forever, name="health", daemon=True)

    def start(self, endpoint: Endpoint) -> Endpoint:
        """Listen; returns the address, with the port that port 0 stood for."""
        listening = asyncio.start_server(
            self._connected, endpoint.host, endpoint.port, limit=MOST_REQUEST_BYTES
        )
        try:
            server = self._loop.run_until_complete(listening)
        except OSError:
            self._loop.close()
            raise
        self._thread.start()
        host, port, *_ = server.sockets[0].getsockname()
        return Endpoint(host=host, port=port)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= MOST_CONNECTIONS:
                async with asyncio.timeout(REQUEST_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._response(head))
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # Whoever asks for something else, or never does, gets no response.
            pass
        finally:
            self._connections -= 1
            writer.close()

    def _response(self, head: bytes) -> bytes:
        match head.split(maxsplit=2):
            case [b"GET" | b"HEAD", b"/livez", _]:
                status, word = _judged(self._health.lives, "alive", "stuck")
            case [b"GET" | b"HEAD", b"/readyz", _]:
                status, word = _judged(self._health.ready, "ready", "unready")
            case [b"GET" | b"HEAD", *_]:
                status, word = HTTPStatus.NOT_FOUND, "unknown"
            case _:
                status, word = HTTPStatus.METHOD_NOT_ALLOWED, "unknown"
        body = f"{word}\n"
        response = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return (response if head.startswith(b"HEAD") else response + body).encode()


def _judged(good: bool, yes: str, no: str) -> tuple[HTTPStatus, str]:
    return (HTTPStatus.OK, yes) if good else (HTTPStatus.SERVICE_UNAVAILABLE, no)
