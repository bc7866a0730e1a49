"""What a process says of its health, and to whom."""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from orchestrator import health as module
from orchestrator.errors import InvalidInput
from orchestrator.health import HEALTH_VARIABLE, STARTING_S, TURNED_S, Health, served


@dataclass
class Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


class Process:
    """A process that serves its health."""

    def __init__(self, health: Health, clock: Clock, port: int) -> None:
        self.health, self.clock, self.port = health, clock, port

    def asked(self, path: str, method: str = "GET") -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode()


@pytest.fixture
def process() -> Iterator[Process]:
    clock = Clock()
    health = Health(clock)
    with served(health, {HEALTH_VARIABLE: "0"}) as address:
        assert address is not None
        yield Process(health, clock, address.port)


def test_a_process_that_starts_lives_and_is_not_ready(process: Process) -> None:
    assert process.asked("/livez") == (200, "alive\n")
    assert process.asked("/readyz") == (503, "unready\n")
    process.clock.now_s = STARTING_S
    assert process.asked("/livez") == (503, "stuck\n")


def test_a_loop_that_stops_turning_is_neither_alive_nor_ready(process: Process) -> None:
    process.health.turned(ready=True)
    assert process.asked("/livez") == (200, "alive\n")
    assert process.asked("/readyz") == (200, "ready\n")
    process.clock.now_s = TURNED_S
    assert process.asked("/livez") == (503, "stuck\n")
    assert process.asked("/readyz") == (503, "unready\n")
    process.health.turned(ready=False)
    assert process.asked("/livez") == (200, "alive\n")
    assert process.asked("/readyz") == (503, "unready\n")


def test_a_process_that_has_waited_for_another_one_starts_only_then(process: Process) -> None:
    process.clock.now_s = 2 * STARTING_S
    process.health.waits()
    process.clock.now_s += STARTING_S - 1
    assert process.asked("/livez") == (200, "alive\n")
    assert process.asked("/readyz") == (503, "unready\n")
    process.clock.now_s += 1
    assert process.asked("/livez") == (503, "stuck\n")


def test_nothing_else_is_told(process: Process) -> None:
    assert process.asked("/metrics") == (404, "unknown\n")
    assert process.asked("/livez", "POST") == (405, "unknown\n")
    assert process.asked("/livez", "HEAD") == (200, "")


def test_clients_that_never_finish_keep_nobody_out(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REQUEST_S", 0.01)
    silent = [
        socket.create_connection(("127.0.0.1", process.port))
        for _ in range(module.MOST_CONNECTIONS)
    ]
    for each in silent:
        # Its end comes although the client has sent nothing.
        assert each.recv(1) == b""
        each.close()
    assert process.asked("/livez") == (200, "alive\n")


def test_a_long_request_gets_no_response(process: Process) -> None:
    with socket.create_connection(("127.0.0.1", process.port)) as client:
        client.sendall(b"GET /livez HTTP/1.1\r\n" + b"x" * 2 * module.MOST_REQUEST_BYTES)
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
    assert process.asked("/livez") == (200, "alive\n")


@pytest.mark.parametrize("text", ["health", "70000", "127.0.0.1", "-1"])
def test_a_value_that_is_no_address_is_refused(text: str) -> None:
    expected = pytest.raises(InvalidInput, match=r"VIVACE_HEALTH.*no address.*9650")
    with expected, served(Health(), {HEALTH_VARIABLE: text}):
        pass


def test_a_port_that_is_taken_is_refused(process: Process) -> None:
    expected = pytest.raises(InvalidInput, match=r"VIVACE_HEALTH.*cannot be listened at")
    with expected, served(Health(), {HEALTH_VARIABLE: str(process.port)}):
        pass


def test_without_the_variable_nothing_is_served() -> None:
    with served(Health(), {}) as address:
        assert address is None
