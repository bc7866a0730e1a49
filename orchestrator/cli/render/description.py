"""All that is known of one thing: its facts one under the other, and what it has to do with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from orchestrator import api
from orchestrator.cli.render.automation import PROPOSALS
from orchestrator.cli.render.figures import bytes_text, ms, of_bytes
from orchestrator.cli.render.history import events_table
from orchestrator.cli.render.kinds import (
    FRAGMENTS,
    MOVES,
    NODES,
    OUTPUTS,
    QUERIES,
    STREAMS,
)
from orchestrator.cli.render.listing import Kind
from orchestrator.cli.render.loads import machines_table
from orchestrator.cli.render.loads import table as figures_table
from orchestrator.cli.render.plan_files import plan_file_view


def description_view(found: api.Description, *, wide: bool = False) -> RenderableType:
    """The facts, the tables of related things, and the last events."""
    parts: list[RenderableType] = []
    listed = _listed(found)
    is_there = any(records for kind, _, records in listed if kind == found.kind)
    away = "" if is_there else ": it is in the manifest, and away"
    parts.append(Text(f"{found.kind.capitalize()} {found.name}{away}", "bold"))
    for kind, columns, records in listed:
        if kind == found.kind and records:
            parts.append(columns.facts(records[0]))
    parts += [Text(f"! {problem}", style="bold red") for problem in found.problems]
    parts += [Text(f"! {each.state}; {each.doing}", style="yellow") for each in found.degraded]
    parts += [Text(f"· {why}") for why in found.why]
    parts += list(_definition(found))
    for kind, columns, records in listed:
        if kind != found.kind and records:
            parts.append(columns.table(records, wide=wide, title=f"\n{columns.title}"))
    if found.moves:
        parts.append(_steps(found.moves[0]))
    parts += [plan_file_view(each.plan) for each in found.proposals]
    if any(load.is_machine for load in found.loads):
        parts.append(machines_table(found.loads))
    if found.costs:
        parts.append(_costs(found.costs))
    if found.round_trips_ms:
        trips = figures_table("\nRound trips", ("peer",), ("measured",))
        for peer, measured_ms in found.round_trips_ms.items():
            trips.add_row(peer, ms(measured_ms))
        parts.append(trips)
    if found.history:
        parts.append(events_table(found.history, title="\nHistory", wide=wide))
    return Group(*parts)


def _listed(found: api.Description) -> list[tuple[str, Kind[Any], Sequence[Any]]]:
    """Kind of thing, its columns, and those of that kind."""
    return [
        ("node", NODES, found.nodes),
        ("query", QUERIES, found.queries),
        ("fragment", FRAGMENTS, found.fragments),
        ("stream", STREAMS, found.streams),
        ("output", OUTPUTS, found.outputs),
        ("move", MOVES, found.moves),
        ("proposal", PROPOSALS, found.proposals),
    ]


def _steps(plan: api.MovePlanStatus) -> RenderableType:
    made = figures_table("\nMoves", ("fragment", "role", "to", "outcome"), ("bytes moved",))
    for step in plan.steps:
        moved = of_bytes(step.moved_bytes, step.state_bytes)
        made.add_row(step.fragment, step.role, step.node, step.problem or step.outcome, moved)
    return made


def _definition(found: api.Description) -> Iterator[Text]:
    if found.reads:
        yield Text(f"reads {', '.join(found.reads)}")
    if found.read_by:
        yield Text(f"is read by {', '.join(found.read_by)}")
    if (stream := found.stream) is not None:
        columns = ", ".join(f"{name} {kind}" for name, kind in stream.columns.items())
        yield Text(f"columns: {columns}; {bytes_text(stream.rate_bytes_s)}/s are expected")
        source = "none" if stream.source is None else stream.source.driver
        yield Text(f"source: {source}")
    statement = found.statement or (None if found.query is None else found.query.statements)
    if statement is not None:
        yield Text(f"\n{statement.strip()}", "dim")


def _costs(costs: Sequence[api.FragmentCost]) -> RenderableType:
    made = figures_table(
        "\nCosts",
        ("fragment", "known from"),
        ("an evaluation", "a tuple", "evaluations/s", "cores"),
    )
    for each in costs:
        made.add_row(
            each.fragment,
            each.basis,
            f"{each.fixed_us:.0f} µs",
            f"{each.per_tuple_us:.2f} µs",
            f"{each.evaluations_s:.1f}",
            f"{each.cores:.3f}",
        )
    return made
