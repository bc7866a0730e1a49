"""Ports of the loopback interface."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

from orchestrator.errors import VivaceError

LOOPBACK = "127.0.0.1"

LEAST_PORT = 10_000
"""The least port that is chosen: well-known services listen below."""

_numbering = Path("/proc/sys/net/ipv4/ip_local_port_range")
_iana_first = 49_152
"""Where the system's own ports begin by RFC 6335, 6, if it does not say otherwise."""


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
    """So many different ports on which nothing listens now.

    They lie below those that the system gives to outgoing connections: with many connections on the
    machine, one of them would sooner or later take a port before the server binds it.
    """
    range_end = _first_of_system()
    draw = random.SystemRandom()
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            probe = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind((LOOPBACK, draw.randrange(LEAST_PORT, range_end)))
                ports.append(int(probe.getsockname()[1]))
        return ports


def _first_of_system() -> int:
    """The first port that the system may give to an outgoing connection."""
    try:
        first = int(_numbering.read_text("ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return _iana_first
    # A system that takes nearly all ports for itself leaves none to choose from.
    return first if first >= 2 * LEAST_PORT else _iana_first
