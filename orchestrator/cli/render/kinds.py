"""The kinds of things in a cluster: their columns, and the operations that list them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from orchestrator import api
from orchestrator.cli.render.automation import PROPOSALS
from orchestrator.cli.render.figures import (
    against,
    bytes_text,
    clock,
    count,
    lasting,
    ms,
    of_bytes,
)
from orchestrator.cli.render.host_labels import LABEL_COLUMNS
from orchestrator.cli.render.listing import Kind, ListedColumn
from orchestrator.cli.render.loads import CORES, cores
from orchestrator.operations import table
from orchestrator.operations.operation import Operation


def bad(value: float, text: str) -> Text:
    """A text that is red if the figure is not 0."""
    return Text(text, style="bold red" if value else "")


def _below(query: str, name: str) -> Text:
    return Text.assemble((f"{query}.", "dim"), name)


# Nodes.


def _kind(node: api.NodeStatus) -> Text:
    states = {" cordoned": node.cordoned, " leaves": node.leaving}
    return Text.assemble(node.kind, *((m, "yellow") for m, is_so in states.items() if is_so))


def _replicas(node: api.NodeStatus) -> str:
    return f"{node.primaries} + {node.secondaries}" if node.kind == "executor" else ""


def _memory(node: api.NodeStatus) -> str:
    return "–" if node.memory is None else bytes_text(node.memory.used)


def _missed(sdmr_pct: float) -> Text:
    """A sub-deadline miss ratio."""
    return bad(round(sdmr_pct), f"{sdmr_pct:.1f} %")


NODES = Kind[api.NodeStatus](
    title="Nodes",
    name=lambda node: node.node,
    columns=(
        ListedColumn(title="node", cell=lambda node: node.node),
        ListedColumn(title="kind", cell=_kind),
        ListedColumn(title="region", cell=lambda node: node.region),
        *LABEL_COLUMNS,
        ListedColumn(
            title="error",
            cell=lambda node: "–" if node.error is None else f"±{node.error:.0%}",
            order=lambda node: node.error,
        ),
        ListedColumn(
            title="load", cell=lambda node: ms(node.load_ms), order=lambda node: node.load_ms
        ),
        ListedColumn(
            title=CORES,
            cell=lambda node: "–" if node.load is None else cores(node.load),
            order=lambda node: None if node.load is None else node.load.measured_cores,
        ),
        ListedColumn(
            title="primaries + secondaries",
            cell=_replicas,
            order=lambda node: node.primaries + node.secondaries,
        ),
        ListedColumn(title="pid", cell=lambda node: str(node.pid), order=lambda node: node.pid),
        ListedColumn(
            title="SDMR",
            cell=lambda node: _missed(node.sdmr_pct),
            order=lambda node: node.sdmr_pct,
            is_wide=True,
        ),
        ListedColumn(
            title="queues",
            cell=_memory,
            order=lambda node: None if node.memory is None else node.memory.used,
            is_wide=True,
        ),
    ),
)


# Fragments.


def _primary(each: api.FragmentStatus) -> Text:
    return Text(each.primary) if each.primary_alive else Text(f"{each.primary} ✗", "red")


def _secondary(each: api.FragmentStatus) -> Text:
    """The secondary, and the node to or from which a replica is being moved."""
    third = "" if each.third is None else f" (+ {each.third})"
    return Text.assemble(each.secondary or "–", (third, "yellow"))


def _budget(each: api.FragmentStatus) -> str | Text:
    """Parts of the recovery that is promised, and what it may take."""
    if (plan := each.plan) is None:
        return "–"
    if plan.transfer_ms is None:
        return Text(f"– / {ms(plan.bound_ms)}", "bold red")
    parts = (plan.detection_ms, plan.transfer_ms, plan.reprocess_ms)
    told = " + ".join(f"{part:.0f}" for part in parts)
    return Text.assemble(f"{told} = ", against(plan.recovery_ms, plan.bound_ms))


def _drilled(each: api.FragmentStatus) -> str:
    if (days := each.drilled_days) is None:
        return "never"
    return f"{days:.0f} d ago" if days >= 1 else "today"


def _lost_input(each: api.FragmentStatus) -> Text:
    """Tuples without results that a fragment lacked when it began from nothing, at most."""
    unknown = any(lost.tuples is None for lost in each.lost_input.values())
    lost = each.lost_input_tuples
    return bad(lost, "some" if unknown else count(lost))


FRAGMENTS = Kind[api.FragmentStatus](
    title="Fragments",
    name=lambda each: each.name,
    columns=(
        ListedColumn(title="fragment", cell=lambda each: _below(each.query, each.fragment)),
        ListedColumn(title="primary", cell=_primary),
        ListedColumn(title="secondary", cell=_secondary),
        ListedColumn(
            title="standby",
            cell=lambda each: Text.assemble(
                ("✓ ", "green") if each.redundant else ("! ", "yellow"), each.secondary_state
            ),
        ),
        ListedColumn(
            title="detect + transfer + redo / bound",
            cell=_budget,
            order=lambda each: None if each.plan is None else each.plan.recovery_ms,
        ),
        ListedColumn(
            title="redo now", cell=lambda each: ms(each.redo_ms), order=lambda each: each.redo_ms
        ),
        ListedColumn(title="drilled", cell=_drilled, order=lambda each: each.drilled_days),
        ListedColumn(
            title="unprotected",
            cell=lambda each: "–" if each.unprotected_s is None else f"{each.unprotected_s:.2f} s",
            order=lambda each: each.unprotected_s,
        ),
        ListedColumn(
            title="sub-deadline",
            cell=lambda each: ms(each.sub_deadline_ms),
            order=lambda each: each.sub_deadline_ms,
        ),
        ListedColumn(
            title="input lost",
            cell=_lost_input,
            order=lambda each: each.lost_input_tuples,
            when=lambda fragments: any(each.lost_input for each in fragments),
        ),
        ListedColumn(
            title="cores",
            cell=lambda each: "–" if each.load is None else f"{each.load.cores:.3f}",
            order=lambda each: None if each.load is None else each.load.cores,
            is_wide=True,
        ),
        ListedColumn(
            title="tuples/s",
            cell=lambda each: "–" if each.load is None else f"{each.load.tuples_s:,.0f}",
            order=lambda each: None if each.load is None else each.load.tuples_s,
            is_wide=True,
        ),
        ListedColumn(
            title="batching",
            cell=lambda each: (
                "–" if each.batching is None else f"{each.batching.policy} ×{each.batching.k}"
            ),
            order=lambda each: None if each.batching is None else each.batching.k,
            is_wide=True,
        ),
        ListedColumn(
            title="SDMR",
            cell=lambda each: "–" if each.batching is None else _missed(each.batching.sdmr_pct),
            order=lambda each: None if each.batching is None else each.batching.sdmr_pct,
            is_wide=True,
        ),
        ListedColumn(
            title="epoch",
            cell=lambda each: str(each.epoch),
            order=lambda each: each.epoch,
            is_wide=True,
        ),
    ),
)


# Queries.


def _recovery(each: api.QueryStatus) -> str | Text:
    return "–" if each.plan is None else against(each.plan.recovery_ms, each.bound_ms)


QUERIES = Kind[api.QueryStatus](
    title="Queries",
    name=lambda each: each.query,
    columns=(
        ListedColumn(title="query", cell=lambda each: each.query),
        ListedColumn(
            title="protected",
            cell=lambda each: Text(
                f"{each.protected} of {len(each.fragments)}",
                "green" if each.protected == len(each.fragments) else "yellow",
            ),
            order=lambda each: len(each.fragments) - each.protected,
        ),
        ListedColumn(
            title="latency / deadline",
            cell=lambda each: (
                "–" if each.plan is None else against(each.plan.latency_ms, each.deadline_ms)
            ),
            order=lambda each: None if each.plan is None else each.plan.latency_ms,
        ),
        ListedColumn(
            title="recovery / bound",
            cell=_recovery,
            order=lambda each: None if each.plan is None else each.plan.recovery_ms,
        ),
        ListedColumn(
            title="slack", cell=lambda each: ms(each.slack_ms), order=lambda each: each.slack_ms
        ),
        ListedColumn(
            title="network usage",
            cell=lambda each: (
                "–" if each.plan is None else bytes_text(each.plan.network_usage_bytes)
            ),
            order=lambda each: None if each.plan is None else each.plan.network_usage_bytes,
        ),
        ListedColumn(title="outputs", cell=lambda each: ", ".join(each.outputs)),
        ListedColumn(title="fragments", cell=lambda each: ", ".join(each.fragments), is_wide=True),
        ListedColumn(
            title="slowest path",
            cell=lambda each: "–" if each.plan is None else each.plan.way,
            is_wide=True,
        ),
    ),
)


# Streams.


def _sites(stream: api.StreamStatus) -> Text:
    """The site that feeds consumers, and the one that stands by, red if it does not."""
    text = Text(stream.site)
    if stream.standby is not None:
        text.append(", ").append(stream.standby, style="dim" if stream.stands_by else "bold red")
    return text


def _address(stream: api.StreamStatus) -> str:
    return (None if stream.input is None else stream.input.address) or ""


def _waiting(stream: api.StreamStatus) -> int:
    waiting = None if stream.input is None else stream.input.waiting
    return 0 if waiting is None else waiting.tuples


def _lost(stream: api.StreamStatus) -> Text:
    skipped = 0 if stream.skipped is None else stream.skipped.tuples
    if skipped is None:
        return bad(1, "some")
    return bad(skipped + stream.overflowed, count(skipped + stream.overflowed))


STREAMS = Kind[api.StreamStatus](
    title="Streams",
    name=lambda stream: stream.stream,
    columns=(
        ListedColumn(title="stream", cell=lambda stream: stream.stream),
        ListedColumn(title="site", cell=_sites),
        ListedColumn(
            title="enters at", cell=_address, when=lambda streams: any(_address(s) for s in streams)
        ),
        ListedColumn(title="waiting", cell=lambda stream: count(_waiting(stream)), order=_waiting),
        ListedColumn(
            title="entered",
            cell=lambda stream: count(stream.entered),
            order=lambda stream: stream.entered,
        ),
        ListedColumn(
            title="refused",
            cell=lambda stream: bad(stream.refused, count(stream.refused)),
            order=lambda stream: stream.refused,
        ),
        ListedColumn(
            title="shed",
            cell=lambda stream: bad(stream.shed, count(stream.shed)),
            order=lambda stream: stream.shed,
        ),
        ListedColumn(
            title="overdue",
            cell=lambda stream: bad(stream.overdue, count(stream.overdue)),
            order=lambda stream: stream.overdue,
            when=lambda streams: any(stream.overdue for stream in streams),
        ),
        ListedColumn(
            title="lost",
            cell=_lost,
            order=lambda stream: stream.skipped_tuples + stream.overflowed,
        ),
        ListedColumn(
            title="slipped",
            cell=lambda stream: bad(stream.slipped_ms, f"{stream.slipped_ms / 1000:.1f} s"),
            order=lambda stream: stream.slipped_ms,
        ),
        ListedColumn(title="waits for", cell=lambda stream: stream.waits_for or "–", is_wide=True),
        ListedColumn(title="beside", cell=lambda stream: stream.beside or "–", is_wide=True),
    ),
)


# Outputs.


def _latency(latency_ms: float | None, uncertainty_ms: float | None) -> str:
    """A latency, and by how much it may be wrong if clocks of several machines were compared."""
    if latency_ms is None or uncertainty_ms == 0:
        return ms(latency_ms)
    return f"{ms(latency_ms)} ± {'?' if uncertainty_ms is None else ms(uncertainty_ms)}"


def _slack(output: api.OutputStatus) -> str | Text:
    if output.slack_ms is None:
        return "–"
    return Text(ms(output.slack_ms), "bold red" if output.slack_ms < 0 else "")


OUTPUTS = Kind[api.OutputStatus](
    title="Outputs",
    name=lambda output: output.stream,
    columns=(
        ListedColumn(title="stream", cell=lambda output: _below(output.query, output.stream)),
        ListedColumn(title="site", cell=lambda output: output.site),
        ListedColumn(
            title="tuples", cell=lambda output: count(output.rows), order=lambda output: output.rows
        ),
        ListedColumn(
            title="p50",
            cell=lambda o: _latency(o.latency_ms_p50, o.latency_uncertainty_ms),
            order=lambda output: output.latency_ms_p50,
        ),
        ListedColumn(
            title="p99",
            cell=lambda o: _latency(o.latency_ms_p99, o.latency_uncertainty_ms),
            order=lambda output: output.latency_ms_p99,
        ),
        ListedColumn(
            title="deadline",
            cell=lambda output: ms(output.deadline_ms),
            order=lambda output: output.deadline_ms,
        ),
        ListedColumn(title="slack", cell=_slack, order=lambda output: output.slack_ms),
        ListedColumn(
            title="late",
            cell=lambda output: bad(output.late_rows, f"{output.miss_pct:.2f} %"),
            order=lambda output: output.miss_pct,
        ),
        ListedColumn(
            title="dropped\nlate",
            cell=lambda output: bad(output.late_dropped, count(output.late_dropped)),
            order=lambda output: output.late_dropped,
            when=lambda outputs: any(output.late_dropped for output in outputs),
        ),
        ListedColumn(
            title="made\nagain",
            cell=lambda output: count(output.made_again),
            order=lambda output: output.made_again,
            when=lambda outputs: any(output.made_again for output in outputs),
        ),
        ListedColumn(
            title="late\nrecently",
            cell=lambda o: "–" if o.recent_miss_pct is None else f"{o.recent_miss_pct:.1f} %",
            order=lambda output: output.recent_miss_pct,
        ),
        ListedColumn(
            title="lost",
            cell=lambda output: bad(output.lost, count(output.lost)),
            order=lambda output: output.lost,
        ),
        ListedColumn(
            title="repeats\ndropped",
            cell=lambda output: count(output.repeated),
            order=lambda output: output.repeated,
        ),
        ListedColumn(title="read at", cell=lambda output: output.address or "–", is_wide=True),
        ListedColumn(
            title="not kept for",
            cell=lambda output: lasting(output.unkept_ms),
            order=lambda output: output.unkept_ms,
            is_wide=True,
        ),
    ),
)


MOVES = Kind[api.MovePlanStatus](
    title="Moves",
    name=lambda plan: plan.name,
    columns=(
        ListedColumn(title="plan", cell=lambda plan: plan.name),
        ListedColumn(
            title="began",
            cell=lambda plan: clock(plan.submitted_us),
            order=lambda plan: plan.submitted_us,
        ),
        ListedColumn(title="by", cell=lambda plan: plan.by or "leader"),
        ListedColumn(
            title="bytes moved",
            cell=lambda plan: of_bytes(plan.moved_bytes, plan.state_bytes),
            order=lambda plan: plan.moved_bytes,
        ),
        ListedColumn(
            title="outcome",
            cell=lambda plan: ("under way: " if plan.under_way else "") + plan.outcome,
        ),
        ListedColumn(title="takes back", cell=lambda plan: plan.undo_of or "–", is_wide=True),
    ),
)


@dataclass(frozen=True, slots=True)
class Listed:
    """A kind, the operation that lists its things, and the column that `top` sorts by at first.

    `things` takes them out of the operation's result.
    """

    operation: Operation[Any, Any]
    kind: Kind[Any]
    first: str
    things: Callable[[Any], Sequence[Any]] = tuple


KINDS: Mapping[str, Listed] = {
    "fragments": Listed(table.FRAGMENTS, FRAGMENTS, "cores"),
    "nodes": Listed(table.NODES, NODES, CORES),
    "queries": Listed(table.QUERIES, QUERIES, "slack"),
    "streams": Listed(table.STREAMS, STREAMS, "entered"),
    "outputs": Listed(table.OUTPUTS, OUTPUTS, "p99"),
    "moves": Listed(table.MOVES, MOVES, "began", lambda found: found.plans),
    "proposals": Listed(table.PROPOSALS, PROPOSALS, "moves"),
}
"""What `get` and `top` list."""
