"""The state of a cluster: nodes, fragments, outputs, what went wrong, and what happened last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ha.roles import ReplicaRole
from orchestrator.cli.render.figures import count, ms
from orchestrator.cli.render.history import EventDocument, event_document, events_table
from orchestrator.control.view import ClusterView
from orchestrator.records import FragmentRecord, NodeRecord, ReplicaId
from orchestrator.store import HistoryEntry

RECENT = 6
"""Events of the history that the status shows."""

noteworthy = {
    "tuples_lost": "tuples lost for good",
    "takeovers": "takeovers",
    "demotions": "primaries that stepped down",
    "suspicions": "suspicions of a silent peer",
    "states_broken": "states that had to be built anew",
    "snapshots_unusable": "snapshots that came too late",
    "frames_refused": "frames refused",
    "sends_to_full_queue": "messages dropped at a full queue",
}
"""Counters that an operator should know of when they are not 0; the others are in `--json`."""


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A live host."""

    node: str
    kind: str
    region: str
    error: float | None
    load_ms: float | None
    primaries: int
    secondaries: int
    pid: int
    counters: dict[str, int]


class FragmentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A fragment: `redundant` when its primary runs and a warm secondary stands by."""

    query: str
    fragment: str
    epoch: int
    primary: str
    primary_alive: bool
    sub_deadline_ms: float
    secondary: str | None
    secondary_state: str
    redundant: bool


class SourceDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A stream where it enters."""

    stream: str
    site: str
    entered: int
    shed: int


class OutputStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A stream where it leaves."""

    query: str
    stream: str
    site: str
    rows: int
    completed_timestamps: int
    latency_ms_p50: float | None
    latency_ms_p99: float | None
    deadline_ms: float
    deadline_misses: int
    late_rows: int
    miss_pct: float
    recent_miss_pct: float | None
    lost: int
    repeated: int


class StatusDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `vivace status` says."""

    cluster: str
    nodes: tuple[NodeStatus, ...]
    fragments: tuple[FragmentStatus, ...]
    sources: tuple[SourceDocument, ...]
    outputs: tuple[OutputStatus, ...]
    problems: tuple[str, ...]
    history: tuple[EventDocument, ...]


def status_document(view: ClusterView, history: Sequence[HistoryEntry]) -> StatusDocument:
    """The state as it was read."""
    records = [found.record for found in view.fragments.values()]
    return StatusDocument(
        cluster=view.settings.name,
        nodes=tuple(_node(node, records) for _, node in sorted(view.hosts.items())),
        fragments=tuple(_fragment(view, record) for record in _ordered(view, records)),
        sources=tuple(_sources(view)),
        outputs=tuple(_outputs(view)),
        problems=(
            *(str(problem) for problem in view.problems),
            *(str(broken) for broken in view.invalid),
        ),
        history=tuple(event_document(entry) for entry in history[-RECENT:]),
    )


def status_view(document: StatusDocument) -> RenderableType:
    """The same for people."""
    parts: list[RenderableType] = [_headline(document), _nodes_table(document.nodes)]
    if document.fragments:
        parts.append(_fragments_table(document.fragments))
    if document.sources:
        parts.append(_sources_table(document.sources))
    if document.outputs:
        parts.append(_outputs_table(document.outputs))
    total: Counter[str] = Counter()
    for node in document.nodes:
        total.update(node.counters)
    noted = [f"{count(total[name])} {what}" for name, what in noteworthy.items() if total[name]]
    if noted:
        parts.append(Text.assemble(("\nSince the start: ", "bold"), ", ".join(noted)))
    parts += [Text(f"! {problem}", style="red") for problem in document.problems]
    if document.history:
        parts.append(events_table(document.history, title="\nHistory"))
    return Group(*parts)


def _node(node: NodeRecord, records: Sequence[FragmentRecord]) -> NodeStatus:
    me = ReplicaId(node=node.node, incarnation=node.incarnation)
    return NodeStatus(
        node=node.node,
        kind=node.kind.value,
        region=node.region,
        error=None if node.coordinate is None else node.coordinate.error,
        load_ms=None if node.coordinate is None else node.coordinate.cpu_ms,
        primaries=sum(record.primary == me for record in records),
        secondaries=sum(record.secondary == me for record in records),
        pid=node.pid,
        counters=node.counters,
    )


def _ordered(view: ClusterView, records: Sequence[FragmentRecord]) -> list[FragmentRecord]:
    """By query, producers before consumers."""
    place = {name: i for i, name in enumerate(view.dataflow.fragments)}
    return sorted(records, key=lambda r: (r.query, place.get(r.fragment, len(place)), r.fragment))


def _fragment(view: ClusterView, record: FragmentRecord) -> FragmentStatus:
    secondary = view.status(record.secondary, record.fragment)
    if record.secondary is None:
        state = "none"
    elif not view.alive(record.secondary):
        state = "gone"
    elif secondary is None:
        state = "starting"
    else:
        state = "warm" if secondary.role is ReplicaRole.STANDBY else secondary.role.value
    return FragmentStatus(
        query=record.query,
        fragment=record.fragment,
        epoch=record.epoch,
        primary=record.primary.node,
        primary_alive=view.alive(record.primary),
        sub_deadline_ms=record.timing.sub_deadline_ms,
        secondary=record.secondary.node if record.secondary else None,
        secondary_state=state,
        redundant=view.protected(record),
    )


def _sources(view: ClusterView) -> list[SourceDocument]:
    found: list[SourceDocument] = []
    for name, stream in sorted(view.stream_records.items()):
        site = view.hosts.get(stream.site)
        status = site.sources.get(name) if site is not None else None
        found.append(
            SourceDocument(
                stream=name,
                site=stream.site,
                entered=status.next_seq if status else 0,
                shed=status.shed if status else 0,
            )
        )
    return found


def _outputs(view: ClusterView) -> list[OutputStatus]:
    outputs: list[OutputStatus] = []
    for query in sorted(view.query_records.values(), key=lambda record: record.name):
        for stream, site in query.outputs.items():
            found = view.hosts[site].sinks.get(stream) if site in view.hosts else None
            outputs.append(
                OutputStatus(
                    query=query.name,
                    stream=stream,
                    site=site,
                    rows=found.rows if found else 0,
                    completed_timestamps=found.completed_timestamps if found else 0,
                    latency_ms_p50=found.latency_ms_p50 if found else None,
                    latency_ms_p99=found.latency_ms_p99 if found else None,
                    deadline_ms=query.deadline_of(stream),
                    deadline_misses=found.deadline_misses if found else 0,
                    late_rows=found.late_rows if found else 0,
                    miss_pct=found.miss_pct if found else 0.0,
                    recent_miss_pct=found.recent_miss_pct if found else None,
                    lost=found.lost if found else 0,
                    repeated=found.repeated if found else 0,
                )
            )
    return outputs


def _headline(document: StatusDocument) -> Text:
    bare = [each.fragment for each in document.fragments if not each.redundant]
    text = Text.assemble("Cluster ", (document.cluster, "bold"), ": ")
    text.append(f"{len(document.nodes)} hosts, {len(document.fragments)} fragments")
    if bare:
        text.append(f"; ! without a warm standby: {', '.join(bare)}", "yellow")
    elif document.fragments:
        text.append("; ✓ every fragment has a warm standby", "green")
    return text


def _nodes_table(nodes: Sequence[NodeStatus]) -> Table:
    table = _table("\nNodes", ("node", "kind", "region"), ("error", "load", "copies", "pid"))
    for node in nodes:
        replicas = f"{node.primaries} + {node.secondaries}" if node.kind == "executor" else ""
        error = "–" if node.error is None else f"±{node.error:.0%}"
        row = (node.node, node.kind, node.region, error, ms(node.load_ms), replicas, str(node.pid))
        table.add_row(*row)
    table.columns[5].header = "primaries + secondaries"
    return table


def _fragments_table(fragments: Sequence[FragmentStatus]) -> Table:
    table = _table(
        "\nFragments", ("fragment", "primary", "secondary", "standby"), ("due in", "epoch")
    )
    for each in fragments:
        mark = ("✓ ", "green") if each.redundant else ("! ", "yellow")
        primary = each.primary if each.primary_alive else f"[red]{each.primary} ✗[/]"
        table.add_row(
            f"[dim]{each.query}.[/]{each.fragment}",
            primary,
            each.secondary or "–",
            Text.assemble(mark, each.secondary_state),
            ms(each.sub_deadline_ms),
            str(each.epoch),
        )
    return table


def _sources_table(sources: Sequence[SourceDocument]) -> Table:
    table = _table("\nStreams", ("stream", "site"), ("entered", "shed"))
    for each in sources:
        table.add_row(
            each.stream, each.site, count(each.entered), _bad(each.shed, count(each.shed))
        )
    return table


def _outputs_table(outputs: Sequence[OutputStatus]) -> Table:
    figures = ("rows", "p50", "p99", "deadline", "late", "lately", "lost", "repeated")
    table = _table("\nOutputs", ("stream", "site"), figures)
    for each in outputs:
        lately = "–" if each.recent_miss_pct is None else f"{each.recent_miss_pct:.1f} %"
        table.add_row(
            f"[dim]{each.query}.[/]{each.stream}",
            each.site,
            count(each.rows),
            ms(each.latency_ms_p50),
            ms(each.latency_ms_p99),
            ms(each.deadline_ms),
            _bad(each.late_rows, f"{each.miss_pct:.2f} %"),
            lately,
            _bad(each.lost, count(each.lost)),
            count(each.repeated),
        )
    return table


def _bad(value: int, text: str) -> Text:
    return Text(text, style="bold red" if value else "")


def _table(title: str, names: Sequence[str], figures: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None)
    for name in names:
        table.add_column(name)
    for figure in figures:
        table.add_column(figure, justify="right")
    return table
