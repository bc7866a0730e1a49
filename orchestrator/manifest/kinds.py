"""The kinds of manifest, and their fields.

A manifest is turned into the record that the store keeps, together with the place where it was
read. A cluster's manifest also says which processes to start.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from foundation.suggestions import nearest
from orchestrator.checkpoints.checkpoint_folder import checked_folder
from orchestrator.checkpoints.remote_folder import NO_KEYS, SecretInUri
from orchestrator.documents.document import Field, Options, Section, slug
from orchestrator.documents.units import memory_bytes, rate_bytes_s, servers
from orchestrator.errors import InvalidInput
from orchestrator.manifest.cpu import read_scaling
from orchestrator.manifest.query_kind import read_batching, read_query
from orchestrator.manifest.stream_kind import read_stream
from orchestrator.records import (
    ClusterRecord,
    QueryManifest,
    StreamManifest,
)
from orchestrator.records.checkpoints import StateSpec
from orchestrator.records.moves import LEAST_STATE_RATE_BYTES_S
from orchestrator.records.spec import PlacementSpec
from placement.methods import Method
from streams.scheduling.run_queue import Policy

DEFAULT_EXECUTOR_MEMORY_BYTES = 512 * 2**20
"""Enough for the demo's executors; the Python worker's memory comes on top of it."""

LEAST_EXECUTOR_MEMORY_BYTES = 480 * 2**20
"""Spark ends an executor that can use less than 450 MiB, and Java's serial collector withholds a
thirtieth of the heap: 450 MiB are 29/30 of 466 MiB. The rest is a margin."""

LEAST_MEMORY_BYTES = 16 * 2**20
"""Below that, a stream's part would not hold an interval of a fast stream."""

LEAST_CHECKPOINT_MS = 1000.0
"""A shorter interval would keep a disk busy with what nobody needs."""

MOST_CHECKPOINT_SETS = 10

LEAST_RETAINED_BYTES = 32 * 2**20
"""As a journal's own `retain`."""

MOST_COORDINATORS = 9
"""One leads, and one or two more take over from it. More only hold sessions."""

MOST_SERVERS = 7
"""Each further ZooKeeper server makes writes slower; seven survive the loss of three."""

_process_name = re.compile(r"cluster|web|(site|coordinator)-.*")
"""What other processes of a cluster are called: an application gives its log its name."""


class PlaceManifest(msgspec.Struct, frozen=True, kw_only=True):
    """A node or a site: a name and the region it is in.

    Attributes
    ----------
    domain
        Nodes of one domain fail together, by a power supply or a rack; empty: the node fails alone.
    """

    name: str
    region: str
    file: str
    domain: str = ""


class ApplicationManifest(msgspec.Struct, frozen=True, kw_only=True):
    """A Spark application as a manifest lists it.

    Attributes
    ----------
    nodes
        Names of its nodes.
    zone
        Where it runs; empty: not known.
    """

    name: str
    nodes: tuple[str, ...]
    zone: str = ""


class ZooKeeperManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The ZooKeeper of a cluster.

    Attributes
    ----------
    servers
        Number of servers to start on this machine.
    address
        `host:port` of servers that run already, separated by commas; empty: none do.
    """

    servers: int = 1
    address: str = ""


class ClusterManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`kind: Cluster`: what `vivace up` starts.

    Attributes
    ----------
    file
        File and line of the document.
    written
        As in `StreamManifest`.
    record
        The cluster's settings; `cluster_record` adds the delays of its links.
    nodes
        One executor each.
    sites
        Where streams enter and leave.
    latencies
        Absolute path of the table of round trips; None: links are not delayed.
    applications
        Number of Spark applications that share the nodes, or each of them
        (`orchestrator.manifest.applications`).
    coordinators
        Number of coordinators; one of them leads.
    zookeeper
        The ZooKeeper that the cluster starts or uses.
    """

    file: str
    record: ClusterRecord
    nodes: tuple[PlaceManifest, ...]
    sites: tuple[PlaceManifest, ...] = ()
    latencies: Path | None = None
    executor_memory_bytes: int = DEFAULT_EXECUTOR_MEMORY_BYTES
    applications: int | tuple[ApplicationManifest, ...] = 1
    coordinators: int = 1
    zookeeper: ZooKeeperManifest = ZooKeeperManifest()
    written: Mapping[str, tuple[int, str | None]] = {}

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.record.name


Manifest = ClusterManifest | StreamManifest | QueryManifest


def place_of(manifest: Manifest, field: str) -> str:
    """File and line on which a manifest says a field or, if it does not, what would contain it."""
    while field and field not in manifest.written:
        field = field.rpartition(".")[0]
    if not field:
        return manifest.file
    line, _ = manifest.written[field]
    return f"{manifest.file.rpartition(':')[0]}:{line}"


def read_manifest(document: Field) -> Manifest:
    """A manifest out of a YAML document.

    Raises
    ------
    InvalidInput
        Naming file, line, field and value.
    """
    kind = document.section().need("kind").choice(_readers)
    name = document.section().get("name")
    with document.section(f"{kind} {name.text()}: " if name else f"{kind}: ") as section:
        section.get("kind")
        return _readers[kind](document, section)


def _memory(field: Field, least_bytes: int, problem: str) -> int:
    size = field.quantity(memory_bytes, positive=True)
    if size < least_bytes:
        field.refuse(problem, f"Write {least_bytes // 2**20}m or more.")
    return size


def _state_rate(field: Field) -> float:
    rate = field.quantity(rate_bytes_s, positive=True)
    if rate < LEAST_STATE_RATE_BYTES_S:
        least = f"{LEAST_STATE_RATE_BYTES_S / 1e6:g} MB/s"
        field.refuse("is too little to bring a state to its end", f"Write {least} or more.")
    return rate


def _coordinators(field: Field) -> int:
    count = field.count()
    if count > MOST_COORDINATORS:
        field.refuse("is more than can be of use", f"Write {MOST_COORDINATORS} or fewer.")
    return count


def _applications(
    field: Field, nodes: Sequence[PlaceManifest]
) -> int | tuple[ApplicationManifest, ...]:
    """How many applications share the nodes, or which nodes each of them runs."""
    if not field.is_list():
        most = len({place.domain or place for place in nodes})
        if (count := field.count()) > most:
            field.refuse(
                "leaves an application without a node: nodes of one domain share an application",
                f"Write {most} or fewer.",
            )
        return count
    left = {place.name: "" for place in nodes}
    found = tuple(_application(item, left) for item in field.items())
    for at, application in enumerate(found):
        if application.name in {other.name for other in found[:at]}:
            problem = "is the name of another one"
            field.items()[at].section().need("name").refuse(problem, "Choose another name.")
    if out := ", ".join(name for name, application in left.items() if not application):
        field.refuse(f"leaves out {out}", "Name each node in one application.")
    return found


def _application(item: Field, runs: dict[str, str]) -> ApplicationManifest:
    """An application of a list; its nodes are noted in `runs`: node → application, or empty."""
    with item.section() as section:
        named, listed = section.need("name"), section.need("nodes")
        name = named.slug()
        if _process_name.fullmatch(name):
            named.refuse("is what another process is called", "Choose another name.")
        nodes = tuple(node.slug() for node in listed.items())
        if not nodes:
            listed.refuse("names no node", "Name at least one, or leave the application out.")
        for node, field in zip(nodes, listed.items(), strict=True):
            if node not in runs:
                field.refuse("is no node of this cluster", nearest(node, runs))
            if runs[node]:
                field.refuse(f"is in application {runs[node]} already", "Name it in one of them.")
            runs[node] = name
        zone = section.given({"zone": ("zone", Field.slug)})
        return ApplicationManifest(name=name, nodes=nodes, **zone)


def _zookeeper(field: Field) -> ZooKeeperManifest:
    if not field.is_mapping():
        return ZooKeeperManifest(address=field.parsed(servers))
    with field.section() as section:
        number = section.need("servers")
        count = number.count()
        if count % 2 == 0 or count > MOST_SERVERS:
            number.refuse(
                "is no number of servers of which most can agree",
                f"Write an odd number up to {MOST_SERVERS}.",
            )
        return ZooKeeperManifest(servers=count)


def _folder(field: Field) -> str:
    """A folder, or the URI of one. `vivace up` takes a path without a first `/` as its data's."""
    try:
        return checked_folder(field.text())
    except SecretInUri as secret:
        raise InvalidInput(field.where, field.name, secret.shown, str(secret), NO_KEYS) from None
    except ValueError as error:
        field.refuse(
            f"leads to no file system: {error}", "Write a path, or a URI such as s3://bucket/path."
        )


def _kept(field: Field) -> int:
    if (count := field.count()) > MOST_CHECKPOINT_SETS:
        field.refuse("is more than can be of use", f"Write {MOST_CHECKPOINT_SETS} or fewer.")
    return count


def _every(field: Field) -> float:
    if (every_ms := field.interval_ms()) < LEAST_CHECKPOINT_MS:
        least = f"{LEAST_CHECKPOINT_MS / 1000:g} s"
        field.refuse("leaves no time to write a state", f"Write {least} or more.")
    return every_ms


_state_options: Options = {
    "every_ms": ("every", _every),
    "keep": ("keep", _kept),
    "retain_bytes": (
        "retain",
        lambda field: _memory(field, LEAST_RETAINED_BYTES, "is too little for a journal"),
    ),
}


def _state(field: Field) -> StateSpec:
    with field.section() as section:
        return StateSpec(folder=_folder(section.need("folder")), **section.given(_state_options))


def _placement(field: Field) -> PlacementSpec:
    with field.section() as section:
        methods = [method.value for method in Method]
        return PlacementSpec(method=Method(section.need("method").choice(methods)))


_settings: Options = {
    "heartbeat_ms": ("heartbeat", Field.interval_ms),
    "suspect_after_ms": ("suspectAfter", Field.interval_ms),
    "ack_interval_ms": ("ackInterval", Field.interval_ms),
    "probe_interval_ms": ("probeInterval", Field.interval_ms),
    "batch_ms": ("batch", Field.duration_ms),
    "hop_overhead_ms": ("hop", Field.duration_ms),
    "cpu": ("cpu", read_scaling),
    "scheduling": ("scheduling", lambda field: Policy(field.choice([p.value for p in Policy]))),
    "batching": ("batching", read_batching),
    "placement": ("placement", _placement),
    "memory_bytes": (
        "memory",
        lambda field: _memory(field, LEAST_MEMORY_BYTES, "is too little for the queues of a host"),
    ),
    "state_rate_bytes_s": ("stateRate", _state_rate),
    "state": ("state", _state),
    "emulate_costs": ("emulateCosts", Field.boolean),
    "admission": ("admission", lambda field: field.boolean("on", "off")),
}
_equipment: Options = {
    "sites": ("sites", lambda field: tuple(_place(item) for item in field.items())),
    "latencies": ("latencies", Field.path),
    "executor_memory_bytes": (
        "executorMemory",
        lambda field: _memory(
            field, LEAST_EXECUTOR_MEMORY_BYTES, "is less than Spark needs for an executor"
        ),
    ),
    "coordinators": ("coordinators", _coordinators),
    "zookeeper": ("zookeeper", _zookeeper),
}


def _cluster(document: Field, section: Section) -> ClusterManifest:
    record = ClusterRecord(
        name=section.need("name").slug(), delays_ms={}, **section.given(_settings)
    )
    if record.suspect_after_ms <= record.heartbeat_ms:
        (section.get("suspectAfter") or section.need("heartbeat")).refuse(
            f"lets every node be suspected: heartbeats come every {record.heartbeat_ms:g} ms, "
            f"silence is suspected after {record.suspect_after_ms:g} ms",
            "Make suspectAfter a few times heartbeat.",
        )
    nodes = section.need("nodes")
    if not nodes.items():
        nodes.refuse("names no node", "Name at least two: a query needs two.")
    places = tuple(_place(item) for item in nodes.items())
    shared: Options = {"applications": ("applications", lambda field: _applications(field, places))}
    return ClusterManifest(
        file=document.where,
        written=document.written(),
        record=record,
        nodes=places,
        **section.given({**_equipment, **shared}),
    )


def _place(item: Field) -> PlaceManifest:
    if not item.is_mapping():
        region = item.text()
        name = slug(region)
        if not name:
            item.refuse("gives no name", "Use letters or digits.")
        return PlaceManifest(name=name, region=region, file=item.where)
    with item.section() as section:
        return PlaceManifest(
            name=section.need("name").slug(),
            region=section.need("region").text(),
            file=item.where,
            **section.given({"domain": ("domain", Field.slug)}),
        )


_readers: dict[str, Callable[[Field, Section], Manifest]] = {
    "Cluster": _cluster,
    "Stream": read_stream,
    "Query": read_query,
}
