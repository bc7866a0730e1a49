"""The address that a host's peers are told, and the machine that its failure domain names.

A host that listens on one address tells that one. A host that listens on all interfaces must
choose. The name of a machine often stands for its loopback address (Debian: 127.0.1.1), which is of
no use to others. All hosts reach ZooKeeper, so the address by which this one does is reached by
them, unless addresses are translated between them; then its start parameters must name the address.
"""

from __future__ import annotations

import socket
from contextlib import closing, suppress

import msgspec

from orchestrator.records import MACHINE, HostSpec

ANY_ADDRESS = "0.0.0.0"


def on_this_machine(spec: HostSpec) -> HostSpec:
    """The start parameters of a host that has come to run here."""
    domain = spec.domain.replace(MACHINE, socket.gethostname())
    return msgspec.structs.replace(spec, domain=domain)


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
    if advertise or bind != ANY_ADDRESS:
        return advertise or bind
    for server in zookeeper.partition("/")[0].split(","):
        host, _, port = server.strip().rpartition(":")
        with suppress(OSError), closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
            # Nothing is sent: this only asks the system for the way.
            probe.connect((host, int(port)))
            return probe.getsockname()[0]
    return socket.gethostbyname(socket.gethostname())
