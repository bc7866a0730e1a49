"""The state of a cluster as tables: problems, nodes, fragments, streams, outputs, last events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from orchestrator import api
from orchestrator.cli.render.automation import paused
from orchestrator.cli.render.figures import clock, count, lasting
from orchestrator.cli.render.history import events_table
from orchestrator.cli.render.kinds import FRAGMENTS, NODES, OUTPUTS, STREAMS
from orchestrator.cli.render.loads import machines_table
from orchestrator.cli.render.plan import queries_table

noteworthy = {
    "tuples_lost": "tuples lost for good",
    "discontinuities": "streams that began anew or had a hole",
    "tuples_rejected": "tuples left out because statements fail on them",
    "tuples_cut": "tuples that loops dropped, as too late or too many in a millisecond",
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

WAITS_S = 5.0
"""From then on a line names a stream whose accepted tuples wait: those of a stream that flows wait
for the next ones only."""

STALE_S = 30.0
"""From then on a line names the age of the leader's figures: it computes them every two seconds."""

NO_FIGURES = "· no leader has published loads, costs and promises yet"

MOST_NAMED = 3
"""Names of a kind in the first line; the tables below have all."""


def status_view(document: api.StatusDocument, *, wide: bool = False) -> RenderableType:
    """The state as tables; the first line tells the worst."""
    parts: list[RenderableType] = [_headline(document)]
    parts += [Text(f"! {problem}", style="bold red") for problem in document.problems]
    parts += [Text(f"· {line}") for line in (*waits(document.streams), *ignores(document.streams))]
    parts += [Text(f"· {line}", style="yellow") for line in misses(document.fragments)]
    if document.figures_age_s is None:
        parts.append(Text(NO_FIGURES))
    elif document.figures_age_s > STALE_S:
        parts.append(Text(f"· loads are {document.figures_age_s:.0f} s old", style="yellow"))
    parts += [degraded_line(each, document.at_us) for each in document.degraded]
    parts += [Text(f"· {line}") for line in _automation(document)]
    parts.append(NODES.table(document.nodes, wide=wide, title="\nNodes"))
    if any(load.is_machine for load in document.loads):
        parts.append(machines_table(document.loads))
    if document.fragments:
        parts.append(FRAGMENTS.table(document.fragments, wide=wide, title="\nFragments"))
    if document.queries:
        parts.append(queries_table(document.queries))
    if document.streams:
        parts.append(STREAMS.table(document.streams, wide=wide, title="\nStreams"))
    if document.outputs:
        parts.append(OUTPUTS.table(document.outputs, wide=wide, title="\nOutputs"))
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


def _automation(document: api.StatusDocument) -> Iterator[str]:
    """What the leader proposes, and that it does nothing by itself."""
    if (found := document.proposal) is not None:
        moves = "1 move is" if found.moves == 1 else f"{found.moves} moves are"
        yield f"{moves} proposed until {clock(found.until_us)}: vivace rebalance --proposed"
    if document.automation_paused:
        yield f"automation is {paused(document.automation_paused_until_us)}"


def degraded_line(each: api.Degradation, now_us: int) -> Text:
    """What is not as it should be, since when, what is done, and when it should be over."""
    since = "" if each.since_us is None else f" for {_apart(now_us, each.since_us)}"
    until = f"nobody knows until when: {each.until_why}"
    if each.until_us is not None:
        left = _apart(each.until_us, now_us)
        when = f"over in about {left}" if each.until_us >= now_us else "overdue"
        until = f"{when}: {each.until_why}"
    return Text(f"· {each.subject} {each.state}{since}; {each.doing}; {until}", style="yellow")


def _apart(later_us: int, earlier_us: int) -> str:
    return lasting(max(later_us - earlier_us, 0) / 1000)


def _headline(document: api.StatusDocument) -> Text:
    text = Text.assemble("Cluster ", (document.cluster, "bold"), ": ")
    text.append(f"{len(document.nodes)} hosts, {len(document.fragments)} fragments")
    found = concerns(document)
    for position, concern in enumerate(found):
        text.append(f"; ! {concern}", "bold red" if position == 0 else "yellow")
    if document.fragments and not found:
        text.append("; ✓ every fragment has a warm standby", "green")
    if held := sorted({each.query for each in document.fragments if each.paused}):
        text.append(f"; paused: {_some(held)}", "yellow")
    empty = [each.stream for each in document.streams if _is_empty(each)]
    return text.append(f"; nothing has entered: {_some(empty)}") if empty else text


def _is_empty(stream: api.StreamStatus) -> bool:
    """Whether somebody should know that a stream has had no tuple: what it refuses may be none."""
    waits = stream.input is not None and stream.input.waiting is not None
    return not (stream.entered or waits or stream.beside)


def misses(fragments: Sequence[api.FragmentStatus]) -> list[str]:
    """Fragments whose tasks evaluate input too late, the worst first, a line each."""
    found = [
        (each.batching.sdmr_pct, each.name, each.batching)
        for each in fragments
        if each.batching is not None and each.batching.sdmr_pct >= LATE_PCT
    ]
    found.sort(key=lambda each: (-each[0], each[1]))
    lines = [
        f"{name} evaluates {pct:.0f} % of its input after its sub-deadline "
        f"(batching: {batching.policy}, k {batching.k})"
        for pct, name, batching in found[:MOST_NAMED]
    ]
    if len(found) > MOST_NAMED:
        lines.append(f"and so do {len(found) - MOST_NAMED} more: vivace top --sort SDMR")
    return lines


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
    running = [each for each in document.fragments if not each.paused]
    dead = [each.fragment for each in running if not each.primary_alive]
    late = sorted(
        ((each.recent_miss_pct or 0.0, each.stream) for each in document.outputs),
        key=lambda pair: (-pair[0], pair[1]),
    )
    late = [(pct, stream) for pct, stream in late if pct > LATE_PCT]
    bare = [each.fragment for each in running if not each.redundant]
    slow = [
        f"{each.stream}, by {each.slipped_ms / 1000:.1f} s so far"
        for each in document.streams
        if each.throttled
    ]
    full = [each.stream for each in document.streams if each.overflowing]
    stuck = [
        f"{each.stream} at {each.site}, nothing for {each.unkept_ms / 1000:.1f} s"
        for each in document.outputs
        if each.unkept_ms > api.UNKEPT_MS
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
