"""What all records have in common, and the names of hosts and replicas."""

from __future__ import annotations

from enum import Enum

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Base of everything stored: immutable and keyword-only.

    Readers ignore fields that they do not know: a newer version may have written them. A field that
    comes later therefore has a default, which means what its lack meant before.
    """

    @property
    def needs(self) -> int:
        """The least `RECORDS` of a version that may act on this record (`records.versions`).

        A record overrides it whose newer fields an older reader must not overlook.
        """
        return 1


FIRST_WIRE = 13
"""Of the first release, and so of a host of which nobody says what it speaks. It stays."""


class NodeKind(Enum):
    """The kind of process that a host is, and thereby what may run on it."""

    EXECUTOR = "executor"
    """A Spark executor: runs fragments."""
    SITE = "site"
    """A place where streams enter or leave; runs no fragment."""
    OBSERVER = "observer"
    """A passing reader of streams: `vivace tail`, a drill's instrument."""


class ReplicaId(Record, frozen=True, kw_only=True):
    """One replica of a fragment: a node in one of its incarnations."""

    node: str
    incarnation: str


class NameClaim(Record, frozen=True, kw_only=True):
    """`/claims/<node>`: the newest process that has claimed a host's name."""

    number: int
    """Rises with every claim."""
    incarnation: str


class LinkFault(Record, frozen=True, kw_only=True):
    """What a drill does to a link in one direction, for a while."""

    until_us: int
    """When it ends by itself, cluster clock, µs."""
    delay_ms: float | None = None
    """By how much the link takes longer; None: it is cut, and loses what it is to carry."""


class Peer(Record, frozen=True, kw_only=True):
    """How to reach another host, and how far away it is."""

    node: str
    incarnation: str
    endpoint: str
    public_key: str
    delay_ms: float
    """One-way delay that the link shaper adds on the way from that host; 0 on a real network."""
    machine: str = ""
    wire: int = FIRST_WIRE
    """The newest wire that both hosts speak."""
    fault: LinkFault | None = None
    """What a drill does to the link from that host to this one."""


class FailureLabels(Record, frozen=True, kw_only=True):
    """What a host dies with: it may share each with other hosts. Empty: it shares none."""

    application: str = ""
    """The Spark application."""
    domain: str = ""
    """Named in the manifest, such as a rack."""
    machine: str = ""
    zone: str = ""


class HostSpec(Record, frozen=True, kw_only=True):
    """Start parameters of a host process. They contain the secret, and are never logged."""

    cluster: str
    node: str
    kind: NodeKind
    region: str
    labels: FailureLabels = FailureLabels()
    """The machine is filled in where the host turns out to run: Spark decides where that is."""
    zookeeper: str
    secret: str
    """Digest credential for the store; empty if the host's environment says where it lies."""
    bind: str = "127.0.0.1"
    advertise: str = ""
    """Address that peers are told; see `orchestrator.host.shell.addresses`."""
    port: int = 0
    """On which links come in; 0: any."""
    archive: str | None = None
    """Folder for the files of a site's sinks."""
