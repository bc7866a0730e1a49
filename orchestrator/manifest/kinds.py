"""The kinds of manifest, and their fields.

What a manifest says becomes a record of the store as it is, so that a manifest is its record plus
where it was read; only a cluster's says more, namely what to start.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from orchestrator import sinks, sources
from orchestrator.manifest.cpu import read_scaling
from orchestrator.manifest.document import Field, Section, slug
from orchestrator.manifest.units import duration_ms, memory_bytes, rate_bytes_s
from orchestrator.records import DriverSpec, Estimate, QueryRecord, Shed, StreamRecord
from streams.chunk import stream_schema, type_names
from streams.language import QueryError
from streams.scheduling.run_queue import Policy
from streams.scheduling.shedder import value_of
from topology.cpu import DEFAULT_SCALING, Scaling

DEFAULT_EXECUTOR_MEMORY_BYTES = 512 * 2**20
"""What the demo's executors need; the Python worker's memory comes on top of it."""


MAY_BE_ZERO = ("batch", "hop")
"""Intervals of a cluster that may be none."""

LEAST_SHED_MS = 1e-3
"""Load shedders count in whole microseconds."""


class PlaceManifest(msgspec.Struct, frozen=True, kw_only=True):
    """A node or a site: a name and the region it is in.

    Attributes
    ----------
    domain
        Nodes with the same one fail together, by a power supply or a rack; empty: not known to.
    """

    name: str
    region: str
    file: str
    domain: str = ""


class TimingManifest(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster's intervals, ms; the defaults are `ClusterRecord`'s."""

    heartbeat_ms: float = 25.0
    suspect_after_ms: float = 150.0
    ack_interval_ms: float = 50.0
    probe_interval_ms: float = 100.0
    batch_ms: float = 10.0
    hop_overhead_ms: float = 2.0


class ClusterManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`kind: Cluster`: what `vivace up` starts.

    Attributes
    ----------
    file
        File and line of the document.
    nodes
        One executor each.
    sites
        Where streams enter and leave.
    latencies
        Absolute path of the table of round trips; None: links are not delayed.
    cpu
        Turns a node's load into the CPU axis of its coordinate.
    scheduling, emulate_costs
        As in `ClusterRecord`.
    """

    file: str
    name: str
    nodes: tuple[PlaceManifest, ...]
    sites: tuple[PlaceManifest, ...]
    latencies: Path | None
    executor_memory_bytes: int
    timing: TimingManifest
    cpu: Scaling
    scheduling: Policy
    emulate_costs: bool


class StreamManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`kind: Stream`: a stream that enters from outside."""

    file: str
    record: StreamRecord


class QueryManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`kind: Query`: a continuous query.

    Attributes
    ----------
    statements_line
        Line of the file on which the statements begin, to turn a position within them into one
        within the file.
    """

    file: str
    record: QueryRecord
    statements_line: int


Manifest = ClusterManifest | StreamManifest | QueryManifest


def read_manifest(document: Field) -> Manifest:
    """A manifest out of a YAML document.

    Raises
    ------
    InvalidInput
        Naming file, line, field and value.
    """
    kind = document.section().need("kind").choice(_readers)
    name_field = document.section().get("name")
    name = name_field.text() if name_field else ""
    section = document.section(f"{kind} {name}: " if name else f"{kind}: ")
    section.get("kind")
    manifest = _readers[kind](document, section)
    section.close()
    return manifest


def _cluster(document: Field, section: Section) -> ClusterManifest:
    name = section.need("name").slug()
    nodes = [_place(item) for item in section.need("nodes").items()]
    if not nodes:
        section.need("nodes").refuse("names no node", "Name at least two: a query needs two.")
    sites_field = section.get("sites")
    sites = [_place(item) for item in sites_field.items()] if sites_field else []
    latencies = section.get("latencies")
    memory = section.get("executorMemory")
    cpu = section.get("cpu")
    scheduling = section.get("scheduling")
    emulate_costs = section.get("emulateCosts")
    return ClusterManifest(
        file=document.where,
        name=name,
        nodes=tuple(nodes),
        sites=tuple(sites),
        latencies=latencies.path() if latencies else None,
        executor_memory_bytes=memory.quantity(memory_bytes, positive=True)
        if memory
        else DEFAULT_EXECUTOR_MEMORY_BYTES,
        timing=_timing(section),
        cpu=read_scaling(cpu) if cpu else DEFAULT_SCALING,
        scheduling=Policy(scheduling.choice([policy.value for policy in Policy]))
        if scheduling
        else Policy.EDF,
        emulate_costs=emulate_costs.boolean() if emulate_costs else False,
    )


def _place(item: Field) -> PlaceManifest:
    if not item.is_mapping():
        region = item.text()
        name = slug(region)
        if not name:
            item.refuse("gives no name", "Use letters or digits.")
        return PlaceManifest(name=name, region=region, file=item.where)
    section = item.section()
    domain = section.get("domain")
    place = PlaceManifest(
        name=section.need("name").slug(),
        region=section.need("region").text(),
        file=item.where,
        domain=domain.slug() if domain else "",
    )
    section.close()
    return place


def _timing(section: Section) -> TimingManifest:
    default = TimingManifest()

    def interval(name: str, otherwise_ms: float) -> float:
        field = section.get(name)
        return (
            field.quantity(duration_ms, positive=name not in MAY_BE_ZERO) if field else otherwise_ms
        )

    timing = TimingManifest(
        heartbeat_ms=interval("heartbeat", default.heartbeat_ms),
        suspect_after_ms=interval("suspectAfter", default.suspect_after_ms),
        ack_interval_ms=interval("ackInterval", default.ack_interval_ms),
        probe_interval_ms=interval("probeInterval", default.probe_interval_ms),
        batch_ms=interval("batch", default.batch_ms),
        hop_overhead_ms=interval("hop", default.hop_overhead_ms),
    )
    suspect_after = section.get("suspectAfter")
    if timing.suspect_after_ms <= timing.heartbeat_ms:
        (suspect_after or section.need("heartbeat")).refuse(
            f"lets every node be suspected: heartbeats come every {timing.heartbeat_ms:g} ms, "
            f"silence is suspected after {timing.suspect_after_ms:g} ms",
            "Make suspectAfter a few times heartbeat.",
        )
    return timing


def _stream(document: Field, section: Section) -> StreamManifest:
    source = section.get("from")
    section.refuse("replay", "Write it as the stream's source: `from: {replay: {…}}`.")
    burst, shed = section.get("burst"), section.get("shed")
    columns = _columns(section.need("columns"))
    return StreamManifest(
        file=document.where,
        record=StreamRecord(
            name=section.need("name").identifier(),
            site=section.need("site").slug(),
            columns=columns,
            rate_bytes_s=section.need("rate").quantity(rate_bytes_s, positive=True),
            burst=burst.count() if burst else None,
            shed=_shed(shed, columns) if shed else None,
            source=sources.read(source) if source else None,
        ),
    )


def _columns(field: Field) -> dict[str, str]:
    columns = {key.identifier(): kind.choice(type_names) for key, kind in field.entries()}
    if not columns:
        field.refuse("has no column", "Declare at least one column.")
    return columns


def _shed(field: Field, columns: dict[str, str]) -> Shed:
    section = field.section()
    value = section.get("value")
    if value is not None:
        try:
            value_of(value.text(), stream_schema(columns))
        except QueryError as error:
            value.refuse(f"cannot value a tuple: {error.message}", "Write an expression over it.")
    per = section.need("per")
    per_ms = per.quantity(duration_ms, positive=True)
    if per_ms < LEAST_SHED_MS:
        per.refuse("is shorter than the clock can tell", "Write 1 us or more.")
    shed = Shed(
        tuples=section.need("tuples").count(),
        per_ms=per_ms,
        value=value.text() if value else None,
    )
    section.close()
    return shed


def _query(document: Field, section: Section) -> QueryManifest:
    outputs_field = section.need("outputs")
    outputs: dict[str, str] = {}
    deadlines_ms: dict[str, float] = {}
    taken_by: dict[str, DriverSpec] = {}
    for key, value in outputs_field.entries():
        stream = key.identifier()
        if not value.is_mapping():
            outputs[stream] = value.slug()
            continue
        output = value.section()
        outputs[stream] = output.need("site").slug()
        if deadline := output.get("deadline"):
            deadlines_ms[stream] = deadline.quantity(duration_ms, positive=True)
        if sink := output.get("to"):
            taken_by[stream] = sinks.read(sink)
        output.close()
    if not outputs:
        outputs_field.refuse("names no output", "Name at least one stream and its site.")
    statements = section.need("statements")
    estimates, primaries = section.get("estimates"), section.get("primaries")
    # A block scalar (`|`) begins on the line after its mark.
    style = getattr(statements.node, "style", None)
    return QueryManifest(
        file=document.where,
        statements_line=statements.node.start_mark.line + (2 if style in ("|", ">") else 1),
        record=QueryRecord(
            name=section.need("name").slug(),
            statements=statements.text(),
            outputs=outputs,
            sinks=taken_by,
            deadline_ms=section.need("deadline").quantity(duration_ms, positive=True),
            deadlines_ms=deadlines_ms,
            recovery_bound_ms=section.need("recovery").quantity(duration_ms, positive=True),
            estimates={key.identifier(): _estimate(value) for key, value in estimates.entries()}
            if estimates
            else {},
            primaries={key.identifier(): _nodes(value) for key, value in primaries.entries()}
            if primaries
            else {},
        ),
    )


def _nodes(field: Field) -> tuple[str, ...]:
    nodes = tuple(item.slug() for item in field.items())
    if not nodes:
        field.refuse("names no node", "Name the nodes that may run its primary.")
    return nodes


def _estimate(field: Field) -> Estimate:
    section = field.section()
    default = Estimate()
    selectivity = section.get("selectivity")
    cost = section.get("cost")
    estimate = Estimate(
        selectivity=selectivity.number() if selectivity else default.selectivity,
        cost_us=1000 * cost.quantity(duration_ms) if cost else default.cost_us,
    )
    section.close()
    return estimate


_readers: dict[str, Callable[[Field, Section], Manifest]] = {
    "Cluster": _cluster,
    "Stream": _stream,
    "Query": _query,
}
