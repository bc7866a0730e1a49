"""The state of a cluster as tables: problems, nodes, fragments, streams, outputs, last events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from orchestrator import api
from orchestrator.cli.render.figures import count, ms, short_domain
from orchestrator.cli.render.history import events_table
from orchestrator.cli.render.loads import CORES, cores, machines_table
from orchestrator.cli.render.loads import table as _table
from orchestrator.cli.render.plan import queries_table
from orchestrator.cli.render.tables import Table

noteworthy = {
    "tuples_lost": "tuples lost for good",
    "discontinuities": "streams that began anew or had a hole",
    "tuples_rejected": "tuples left out because statements fail on them",
    "tuples_overflowed": "tuples that full output logs dropped before all readers had them",
    "divergences": "outputs of a secondary that differed",
    "internal_errors": "internal errors",
    "takeovers": "takeovers",
    "demotions": "primaries that stepped down",
    "chunks_missing": "chunks that did not arrive and were asked for",
    "chunks_differs": "chunks that did not continue what a reader had",
    "suspicions": "suspicions of a silent peer",
    "states_broken": "states that had to be built anew",
    "snapshots_unusable": "snapshots that came too late",
    "frames_refused": "frames refused",
    "compressed_refused": "compressed frames refused",
    "data_refused": "chunks from hosts that do not produce them",
    "responses_refused": "responses of hosts that do not produce the stream",
    "subscribes_refused": "subscriptions of hosts that may not read",
    "epochs_refused": "epochs from hosts that may not tell them",
    "watermarks_refused": "watermarks from hosts that may not tell them",
    "digests_refused": "digests from hosts that may not tell them",
    "acks_refused": "acknowledgements of hosts that may not read",
    "offers_refused": "offers of hosts that do not produce the stream",
    "snapshot_requests_refused": "requests for a state by hosts that may not have it",
    "clocks_contradicted": "probe responses that contradicted what was known of a clock",
    "snapshots_refused": "states from hosts that may not send them",
    "messages_failed": "messages that could not be handled",
    "unusable_addresses": "addresses of hosts to which no link can be opened",
    "sends_to_full_queue": "messages dropped at a full queue",
    "arrivals_dropped": "messages that arrived and were dropped, because too many waited",
    "standbys_left_behind": "standbys that could not follow and started over",
}
"""Counters that status shows to people when they are not 0; `--json` has all of them."""

LATE_PCT = 1.0
"""Share of late tuples from which on the first line names an output, %."""

UNKEPT_MS = 3000.0
"""From then on the first line names an output whose sink keeps nothing: sinks are flushed five
times a second."""

WAITS_S = 5.0
"""From then on a line names a stream whose accepted tuples wait: those of a stream that flows wait
for the next ones only."""

STALE_S = 30.0
"""From then on a line names the age of the leader's figures: it computes them every two seconds."""

NO_FIGURES = "· no leader has published loads, costs and promises yet"

MOST_NAMED = 3
"""Names of a kind in the first line; the tables below have all."""


def status_view(document: api.StatusDocument) -> RenderableType:
    """The state as tables; the first line tells the worst."""
    parts: list[RenderableType] = [_headline(document)]
    parts += [Text(f"! {problem}", style="bold red") for problem in document.problems]
    parts += [Text(f"! {_link_line(link)}", style="yellow") for link in document.links]
    parts += [Text(f"· {line}") for line in (*waits(document.streams), *ignores(document.streams))]
    if document.figures_age_s is None:
        parts.append(Text(NO_FIGURES))
    elif document.figures_age_s > STALE_S:
        parts.append(Text(f"· loads are {document.figures_age_s:.0f} s old", style="yellow"))
    parts.append(_nodes_table(document.nodes, document.loads))
    if any(load.is_machine for load in document.loads):
        parts.append(machines_table(document.loads))
    if document.fragments:
        parts.append(_fragments_table(document.fragments))
    if document.queries:
        parts.append(queries_table(document.queries))
    if document.streams:
        parts.append(_streams_table(document.streams))
    if document.outputs:
        parts.append(_outputs_table(document.outputs))
    total: Counter[str] = Counter()
    for node in document.nodes:
        total.update(node.counters)
    noted = [f"{what} ({count(total[name])})" for name, what in noteworthy.items() if total[name]]
    lines = [each.suggestion for each in document.costs if each.suggestion is not None]
    if lines:
        stated = Text("\nStated costs are off; measured: ", style="bold")
        parts.append(Text.assemble(stated, "estimates: " + ", ".join(lines)))
    if noted:
        parts.append(Text.assemble(("\nSince the start: ", "bold"), ", ".join(noted)))
    if document.history:
        parts.append(events_table(document.history, title="\nHistory"))
    return Group(*parts)


def _link_line(link: api.LinkStatus) -> str:
    what = "is cut" if link.delay_ms is None else f"takes {link.delay_ms:g} ms longer"
    ends = f"{link.source} → {link.target}"
    return f"the link {ends} {what} by a drill, for {link.remaining_s:.0f} s more"


def _headline(document: api.StatusDocument) -> Text:
    text = Text.assemble("Cluster ", (document.cluster, "bold"), ": ")
    text.append(f"{len(document.nodes)} hosts, {len(document.fragments)} fragments")
    found = concerns(document)
    for position, concern in enumerate(found):
        text.append(f"; ! {concern}", "bold red" if position == 0 else "yellow")
    if document.fragments and not found:
        text.append("; ✓ every fragment has a warm standby", "green")
    empty = [each.stream for each in document.streams if _is_empty(each)]
    return text.append(f"; nothing has entered: {_some(empty)}") if empty else text


def _is_empty(stream: api.StreamStatus) -> bool:
    """Whether somebody should know that a stream has had no tuple: what it refuses may be none."""
    waits = stream.input is not None and stream.input.waiting is not None
    return not (stream.entered or waits or stream.beside)


def waits(streams: Sequence[api.StreamStatus]) -> list[str]:
    """What has waited for long after it was accepted, and for what; a sentence for each stream."""
    found: list[str] = []
    for each in streams:
        waiting = None if each.input is None else each.input.waiting
        if waiting is None or each.waits_s is None or each.waits_s < WAITS_S:
            continue
        one = waiting.tuples == 1
        tuples = "1 accepted tuple waits" if one else f"{waiting.tuples:,} accepted tuples wait"
        since = f"none has entered for {each.waits_s:.0f} s"
        found.append(f"{each.stream}: {tuples} for {each.waits_for}; {since}")
    return found


def ignores(streams: Sequence[api.StreamStatus]) -> list[str]:
    """Fields of the input that streams do not have; a sentence for each stream."""
    return [
        f"{each.stream}: fields that the stream does not have were ignored, such as "
        f"{each.input.last_ignored}; tuples that had some: {count(each.input.ignored)}"
        for each in streams
        if each.input is not None and each.input.ignored
    ]


def concerns(document: api.StatusDocument) -> list[str]:
    """What is wrong now, in a phrase each, the worst first; empty if all is well.

    The glossary explains each phrase.
    """
    dead = [each.fragment for each in document.fragments if not each.primary_alive]
    late = sorted(
        ((each.recent_miss_pct or 0.0, each.stream) for each in document.outputs),
        key=lambda pair: (-pair[0], pair[1]),
    )
    late = [(pct, stream) for pct, stream in late if pct > LATE_PCT]
    bare = [each.fragment for each in document.fragments if not each.redundant]
    slow = [
        f"{each.stream}, by {each.slipped_ms / 1000:.1f} s so far"
        for each in document.streams
        if each.throttled
    ]
    full = [each.stream for each in document.streams if each.overflowing]
    stuck = [
        f"{each.stream} at {each.site}, nothing for {each.unkept_ms / 1000:.1f} s"
        for each in document.outputs
        if each.unkept_ms > UNKEPT_MS
    ]
    phrases = {
        "without a primary": _some(dead),
        "input dropped at a full buffer": _some(full),
        "sink does not keep": _some(stuck),
        "throttled": _some(slow),
        "late": _some([f"{stream} {pct:.1f} %" for pct, stream in late]),
        "problems": str(len(document.problems)) if document.problems else "",
        "without a warm standby": _some(bare),
    }
    return [f"{what}: {which}" for what, which in phrases.items() if which]


def _some(names: Sequence[str]) -> str:
    """The first of some names, and how many there are more."""
    shown = ", ".join(names[:MOST_NAMED])
    return shown + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")


def _nodes_table(nodes: Sequence[api.NodeStatus], loads: Sequence[api.PlaceLoad]) -> Table:
    columns = ("error", "load", CORES, "primaries + secondaries", "pid")
    several = len({node.domain for node in nodes if node.kind == "executor"}) > 1
    domain = ("fails with",) if several else ()
    table = _table("\nNodes", ("node", "kind", "region", *domain), columns)
    known = {load.name: load for load in loads if not load.is_machine}
    for node in nodes:
        replicas = f"{node.primaries} + {node.secondaries}" if node.kind == "executor" else ""
        error = "–" if node.error is None else f"±{node.error:.0%}"
        table.add_row(
            node.node,
            f"{node.kind} [yellow]cordoned[/]" if node.cordoned else node.kind,
            node.region,
            *([short_domain(node.domain) if node.kind == "executor" else ""] if several else []),
            error,
            ms(node.load_ms),
            cores(known[node.node]) if node.node in known else "–",
            replicas,
            str(node.pid),
        )
    return table


def _fragments_table(fragments: Sequence[api.FragmentStatus]) -> Table:
    any_lost = any(each.lost_input for each in fragments)
    table = _table(
        "\nFragments",
        ("fragment", "primary", "secondary", "standby"),
        ("unprotected", "sub-deadline", "epoch", *(["input lost"] if any_lost else [])),
    )
    for each in fragments:
        mark = ("✓ ", "green") if each.redundant else ("! ", "yellow")
        primary = each.primary if each.primary_alive else f"[red]{each.primary} ✗[/]"
        table.add_row(
            f"[dim]{each.query}.[/]{each.fragment}",
            primary,
            _standbys(each),
            Text.assemble(mark, each.secondary_state),
            "–" if each.unprotected_s is None else f"{each.unprotected_s:.2f} s",
            ms(each.sub_deadline_ms),
            str(each.epoch),
            *([_lost_input(each)] if any_lost else []),
        )
    return table


def _lost_input(fragment: api.FragmentStatus) -> Text:
    """Tuples without results that a fragment lacked when it began from nothing, at most."""
    unknown = any(each.tuples is None for each in fragment.lost_input.values())
    lost = fragment.lost_input_tuples
    return _bad(lost, "some" if unknown else count(lost))


def _standbys(fragment: api.FragmentStatus) -> str:
    """The secondary, and the node to or from which a replica is being moved."""
    third = "" if fragment.third is None else f" [yellow](+ {fragment.third})[/]"
    return f"{fragment.secondary or '–'}{third}"


def _streams_table(streams: Sequence[api.StreamStatus]) -> Table:
    figures = ("waiting", "entered", "refused", "shed", "lost", "slipped")
    addresses = [each.input.address for each in streams if each.input is not None]
    enters_at = ("enters at",) if any(addresses) else ()
    table = _table("\nStreams", ("stream", "site", *enters_at), figures)
    for each in streams:
        address = None if each.input is None else each.input.address
        table.add_row(
            each.stream,
            _sites(each),
            *([address or ""] if enters_at else []),
            _waiting(each),
            count(each.entered),
            _bad(each.refused, count(each.refused)),
            _bad(each.shed, count(each.shed)),
            _lost(each),
            _bad(each.slipped_ms, f"{each.slipped_ms / 1000:.1f} s"),
        )
    return table


def _sites(stream: api.StreamStatus) -> Text:
    """The site that feeds consumers, and the one that stands by, red if it does not."""
    text = Text(stream.site)
    if stream.standby is not None:
        text.append(", ").append(stream.standby, style="dim" if stream.stands_by else "bold red")
    return text


def _waiting(stream: api.StreamStatus) -> str:
    waiting = None if stream.input is None else stream.input.waiting
    return count(0 if waiting is None else waiting.tuples)


def _lost(stream: api.StreamStatus) -> str | Text:
    skipped = 0 if stream.skipped is None else stream.skipped.tuples
    if skipped is None:
        return _bad(1, "some")
    return _bad(skipped + stream.overflowed, count(skipped + stream.overflowed))


def _outputs_table(outputs: Sequence[api.OutputStatus]) -> Table:
    figures = ("tuples", "p50", "p99", "deadline", "late", "late\nrecently", "lost")
    table = _table("\nOutputs", ("stream", "site"), (*figures, "repeats\ndropped"))
    for each in outputs:
        lately = "–" if each.recent_miss_pct is None else f"{each.recent_miss_pct:.1f} %"
        table.add_row(
            f"[dim]{each.query}.[/]{each.stream}",
            each.site,
            count(each.rows),
            _latency(each.latency_ms_p50, each.latency_uncertainty_ms),
            _latency(each.latency_ms_p99, each.latency_uncertainty_ms),
            ms(each.deadline_ms),
            _bad(each.late_rows, f"{each.miss_pct:.2f} %"),
            lately,
            _bad(each.lost, count(each.lost)),
            count(each.repeated),
        )
    return table


def _latency(latency_ms: float | None, uncertainty_ms: float | None) -> str:
    """A latency, and by how much it may be wrong if clocks of several machines were compared."""
    if latency_ms is None or uncertainty_ms == 0:
        return ms(latency_ms)
    return f"{ms(latency_ms)} ± {'?' if uncertainty_ms is None else ms(uncertainty_ms)}"


def _bad(value: float, text: str) -> Text:
    return Text(text, style="bold red" if value else "")
