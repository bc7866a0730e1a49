"""The kinds of manifest, and their fields.

A manifest is turned into the record that the store keeps, together with the place where it was
read. A cluster's manifest also says which processes to start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from foundation.bounds import MAX_NAME
from orchestrator.documents.document import Field, Options, Section, slug
from orchestrator.documents.units import duration_ms, memory_bytes, rate_bytes_s, servers
from orchestrator.edges import sinks, sources
from orchestrator.edges.sources.formats.form_options import WithForm, read_path, row_form
from orchestrator.edges.sources.formats.row_form import RowForm
from orchestrator.errors import InvalidInput
from orchestrator.manifest.cpu import read_scaling
from orchestrator.records import (
    ClusterRecord,
    Estimate,
    Guarantee,
    OnError,
    Overflow,
    Partial,
    QueryManifest,
    QueryRecord,
    Scheme,
    Shed,
    SourceSpec,
    Standby,
    StreamManifest,
    StreamRecord,
)
from orchestrator.records.moves import LEAST_STATE_RATE_BYTES_S
from streams.language import QueryError
from streams.language.names import is_plain
from streams.plan.partial import PARTIAL_INFIX
from streams.plan.program import REJECTED_SUFFIX
from streams.scheduling.run_queue import Policy
from streams.scheduling.shedder import value_of
from streams.vectors.chunk import stream_schema, type_names
from streams.vectors.reserved import taken

DEFAULT_EXECUTOR_MEMORY_BYTES = 512 * 2**20
"""Enough for the demo's executors; the Python worker's memory comes on top of it."""

LEAST_EXECUTOR_MEMORY_BYTES = 480 * 2**20
"""Spark ends an executor that can use less than 450 MiB, and Java's serial collector withholds a
thirtieth of the heap: 450 MiB are 29/30 of 466 MiB. The rest is a margin."""

LEAST_MEMORY_BYTES = 16 * 2**20
"""Below that, a stream's part would not hold an interval of a fast stream."""

MOST_COORDINATORS = 9
"""One leads, and one or two more take over from it. More only hold sessions."""

MOST_SERVERS = 7
"""Each further ZooKeeper server makes writes slower; seven survive the loss of three."""

LEAST_SHED_MS = 1e-3
"""Load shedders count in whole microseconds."""


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
        Number of Spark applications that share the nodes.
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
    applications: int = 1
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


def _interval(field: Field) -> float:
    return field.quantity(duration_ms, positive=True)


def _duration(field: Field) -> float:
    return field.quantity(duration_ms)


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


_settings: Options = {
    "heartbeat_ms": ("heartbeat", _interval),
    "suspect_after_ms": ("suspectAfter", _interval),
    "ack_interval_ms": ("ackInterval", _interval),
    "probe_interval_ms": ("probeInterval", _interval),
    "batch_ms": ("batch", _duration),
    "hop_overhead_ms": ("hop", _duration),
    "cpu": ("cpu", read_scaling),
    "scheduling": ("scheduling", lambda field: Policy(field.choice([p.value for p in Policy]))),
    "memory_bytes": (
        "memory",
        lambda field: _memory(field, LEAST_MEMORY_BYTES, "is too little for the queues of a host"),
    ),
    "state_rate_bytes_s": ("stateRate", _state_rate),
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
    "applications": ("applications", Field.count),
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
    manifest = ClusterManifest(
        file=document.where,
        written=document.written(),
        record=record,
        nodes=tuple(_place(item) for item in nodes.items()),
        **section.given(_equipment),
    )
    most = len({place.domain or place for place in manifest.nodes})
    if manifest.applications > most:
        section.need("applications").refuse(
            "leaves an application without a node: nodes of one domain share an application",
            f"Write {most} or fewer.",
        )
    return manifest


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


def _stream(document: Field, section: Section) -> StreamManifest:
    section.refuse("replay", "Write it as the stream's source: `from: {replay: {…}}`.")
    declared = section.need("columns")
    columns, fields = _columns(declared)
    options: Options = {
        "burst": ("burst", Field.count),
        "shed": ("shed", lambda field: _shed(field, columns)),
        "source": ("from", sources.read),
    }
    given = section.given(options)
    source: SourceSpec | None = given.get("source")
    _check_fields(declared, columns, fields, source)
    shed = section.get("shed")
    if shed is not None and source is not None and source.guarantee is Guarantee.JOURNALED:
        raise InvalidInput(
            shed.where,
            shed.name,
            None,
            "cannot stand beside a source with a journal, which must number tuples alike when it "
            "is read again: what is shed depends on when they come",
            "Remove it, or write `durable: no` in `from`: then the stream begins anew if its site "
            "is killed.",
        )
    site, standby = _sites(section, source, shed is not None)
    return StreamManifest(
        file=document.where,
        written=document.written(),
        record=StreamRecord(
            name=_stream_name(section.need("name")),
            site=site,
            standby=standby,
            columns=columns,
            fields=fields,
            rate_bytes_s=section.need("rate").quantity(rate_bytes_s, positive=True),
            **given,
        ),
    )


def _sites(section: Section, source: SourceSpec | None, is_shed: bool) -> tuple[str, str | None]:
    """Where a stream enters, and the site that stands by for that one, if there is one."""
    named = section.get("sites")
    if named is None:
        return section.need("site").slug(), None
    if (single := section.get("site")) is not None:
        single.refuse("is there beside `sites`", "Write `site: …` or `sites: [a, b]`, not both.")
    sites = [item.slug() for item in named.items()]
    if len(sites) != 2 or sites[0] == sites[1]:
        named.refuse_list("does not name two sites", "Write `sites: [a, b]`; for one, `site: a`.")
    tied = "there is none" if source is None else sources.restore(source).tied
    if tied is not None:
        what = "`from`" if source is None else f"`from: {source.driver}`"
        again = ""
        if source is not None and source.guarantee is Guarantee.JOURNALED:
            again = "; a site that is started again goes on after its journal"
        named.refuse_list(
            f"needs a source that either site can bring in; {what}: {tied}",
            f"Or write `site: {sites[0]}`{again}.",
        )
    if is_shed:
        named.refuse_list(
            "needs the same tuples at both sites, and a load shedder decides by when they come",
            "Remove `shed`, or write `site: …`.",
        )
    return sites[0], sites[1]


def _stream_name(field: Field) -> str:
    name = field.identifier()
    if PARTIAL_INFIX in name:
        field.refuse(
            f"contains {PARTIAL_INFIX}, as the names of partial statements do",
            "Choose another name.",
        )
    return name


def _columns(field: Field) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Types of columns, and paths of the fields that they come from where these are given."""
    columns: dict[str, str] = {}
    fields: dict[str, tuple[str, ...]] = {}
    for key, value in field.entries():
        name = key.column_name()
        if (reason := taken(name)) is not None:
            remedy = f"Choose another name, for the field with `{{type: …, from: {name}}}`."
            key.refuse(reason, remedy)
        if not value.is_mapping():
            columns[name] = value.choice(type_names)
            continue
        with value.section() as section:
            columns[name] = section.need("type").choice(type_names)
            if (path := section.get("from")) is not None:
                fields[name] = read_path(path)
    if not columns:
        field.refuse("has no column", "Declare at least one column.")
    return columns, fields


def _check_fields(
    field: Field,
    columns: dict[str, str],
    fields: dict[str, tuple[str, ...]],
    source: SourceSpec | None,
) -> None:
    """Refuse columns of which two come from one field, or one from within another's."""
    driver = None if source is None else sources.restore(source)
    form = RowForm(columns=columns, fields=fields)
    if isinstance(driver, WithForm):
        form = row_form(driver, columns, fields)
    paths = sorted(form.paths.items(), key=lambda pair: pair[1])
    for (name, path), (other, longer) in pairwise(paths):
        if longer[: len(path)] == path:
            where = f"the field {'.'.join(path)}"
            problem = f"has two columns, {name} and {other}, that come from {where}"
            if form.time_column in (name, other) and form.time_column not in columns:
                column = other if name == form.time_column else name
                remedy = f"Write `timestamp: {{column: {column}}}`."
            else:
                remedy = "Leave one of them out."
            field.refuse(problem, remedy)


def _shed(field: Field, columns: dict[str, str]) -> Shed:
    def worth(value: Field) -> str:
        try:
            value_of(value.text(), stream_schema(columns))
        except QueryError as error:
            value.refuse(f"cannot value a tuple: {error.message}", "Write an expression over it.")
        return value.text()

    with field.section() as section:
        per = section.need("per")
        per_ms = per.quantity(duration_ms, positive=True)
        if per_ms < LEAST_SHED_MS:
            per.refuse("is shorter than the clock can tell", "Write 1 us or more.")
        return Shed(
            tuples=section.need("tuples").count(),
            per_ms=per_ms,
            **section.given({"value": ("value", worth)}),
        )


def _query(document: Field, section: Section) -> QueryManifest:
    outputs = section.need("outputs")
    read = {_stream_out(key): _output(output) for key, output in outputs.entries()}
    if not read:
        outputs.refuse("names no output", "Name at least one stream and its site.")
    statements = section.need("statements")
    # A block scalar begins on the line after its `|`.
    style = getattr(statements.node, "style", None)
    return QueryManifest(
        file=document.where,
        written=document.written(),
        statements_line=statements.node.start_mark.line + (2 if style in ("|", ">") else 1),
        record=QueryRecord(
            name=section.need("name").slug(),
            statements=statements.text(),
            outputs={s: read[s]["site"] for s in read},
            sinks={s: read[s]["to"] for s in read if "to" in read[s]},
            deadline_ms=_interval(section.need("deadline")),
            deadlines_ms={s: read[s]["deadline"] for s in read if "deadline" in read[s]},
            overflow={s: read[s]["overflow"] for s in read if "overflow" in read[s]},
            recovery_bound_ms=_interval(section.need("recovery")),
            **section.given(_expectations),
        ),
    )


def _stream_out(field: Field) -> str:
    """A stream that leaves: a statement's results, or the tuples that it has rejected."""
    name = field.text()
    of = name.removesuffix(REJECTED_SUFFIX)
    return name if of != name and is_plain(of) and len(name) <= MAX_NAME else field.identifier()


def _output(field: Field) -> dict[str, Any]:
    """An output's site; its deadline, sink and overflow policy, if it has any of its own."""
    if not field.is_mapping():
        return {"site": field.slug()}
    with field.section() as section:
        own = section.given(_own)
        return {"site": section.need("site").slug(), **own}


_own: Options = {
    "deadline": ("deadline", _interval),
    "to": ("to", sinks.read),
    "overflow": ("overflow", lambda field: Overflow(field.choice([o.value for o in Overflow]))),
}


def _nodes(field: Field) -> tuple[str, ...]:
    nodes = tuple(item.slug() for item in field.items())
    if not nodes:
        field.refuse("names no node", "Name the nodes that may run its primary.")
    return nodes


def _estimate(field: Field) -> Estimate:
    options: Options = {
        "selectivity": ("selectivity", Field.number),
        "cost_us": ("cost", lambda cost: 1000 * _duration(cost)),
    }
    with field.section() as section:
        return Estimate(**section.given(options))


def _by_fragment(read: Callable[[Field], object]) -> Callable[[Field], dict[str, object]]:
    """Reads a mapping of fragments to values."""
    return lambda field: {key.identifier(): read(value) for key, value in field.entries()}


def _standby(field: Field) -> Standby:
    if not field.is_mapping():
        stated = [scheme.value for scheme in Scheme if scheme is not Scheme.BATCHES]
        return Standby(scheme=Scheme(field.choice(stated)))
    with field.section() as section:
        batch = section.need("batch").count()
        return Standby(scheme=Scheme.BATCHES, batch=batch) if batch > 1 else Standby()


_expectations: Options = {
    "standby": ("standby", _standby),
    "on_error": ("onError", lambda field: OnError(field.choice([each.value for each in OnError]))),
    "partial": ("partial", lambda field: Partial(field.choice([p.value for p in Partial]))),
    "share": ("share", lambda field: field.boolean()),
    "estimates": ("estimates", _by_fragment(_estimate)),
    "primaries": ("primaries", _by_fragment(_nodes)),
}

_readers: dict[str, Callable[[Field, Section], Manifest]] = {
    "Cluster": _cluster,
    "Stream": _stream,
    "Query": _query,
}
