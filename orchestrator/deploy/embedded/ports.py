"""Ports of the loopback interface."""

from __future__ import annotations

import contextlib
import socket

from orchestrator.errors import VivaceError

LOOPBACK = "127.0.0.1"


class PortTaken(VivaceError):
    """Another program listens on the requested port."""

    def __init__(self, what: str, port: int) -> None:
        super().__init__(
            f"{what} cannot listen on {LOOPBACK}:{port}: the port is taken. "
            "Choose another one, or leave it out to have a free one chosen."
        )
        self.port = port


def is_free(port: int) -> bool:
    """Whether nothing listens on a port; closed connections that linger do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port on which nothing listens now; another program may take it at any time."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """So many different ports on which nothing listens now."""
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((LOOPBACK, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
