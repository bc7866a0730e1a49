"""The address that a host's peers are told.

A host that listens on one address tells that one. A host that listens on all interfaces must
choose. The name of a machine often stands for its loopback address (Debian: 127.0.1.1), which is of
no use to others. All hosts reach ZooKeeper, so the address by which this one does is reached by
them, unless addresses are translated between them; then its start parameters must name the address.
"""

from __future__ import annotations

import socket
from contextlib import closing, suppress

ANY_ADDRESSES = ("0.0.0.0", "::")


def endpoint(address: str, port: int | str) -> str:
    """Of an IP address or a host name, as ZeroMQ has it."""
    address = address.strip("[]")
    return f"tcp://[{address}]:{port}" if ":" in address else f"tcp://{address}:{port}"


def advertised_address(bind: str, advertise: str, zookeeper: str) -> str:
    """The address that peers are told.

    Parameters
    ----------
    bind
        What the host listens on.
    advertise
        What its start parameters name; may be empty.
    zookeeper
        `host:port` of the servers, separated by commas, which a folder may follow.

    Examples
    --------
    >>> advertised_address("127.0.0.2", "", "zk:2181"), advertised_address("0.0.0.0", "me", "zk:1")
    ('127.0.0.2', 'me')
    """
    if advertise or bind.strip("[]") not in ANY_ADDRESSES:
        return advertise or bind
    family = socket.AF_UNSPEC if ":" in bind else socket.AF_INET
    for server in zookeeper.partition("/")[0].split(","):
        host, _, port = server.strip().rpartition(":")
        with suppress(OSError):
            for kind, *_, address in socket.getaddrinfo(
                host.strip("[]"), int(port), family, socket.SOCK_DGRAM
            ):
                with suppress(OSError), closing(socket.socket(kind, socket.SOCK_DGRAM)) as probe:
                    # Nothing is sent: this only asks the system for the way.
                    probe.connect(address)
                    return probe.getsockname()[0]
    return socket.gethostbyname(socket.gethostname())
