"""A plan: who runs each fragment, who stands by, and what that promises."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.cli.render.figures import against, bytes_text, ms
from orchestrator.records import FragmentRecord
from placement.records import PlacedOperator, Plan


class FragmentPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One fragment; `runs` says whether it is at these places now."""

    query: str
    fragment: str
    primary: str
    secondary: str
    detection_ms: float
    transfer_ms: float
    reprocess_ms: float
    recovery_ms: float
    bound_ms: float
    runs: bool


class QueryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One query: `latency_ms` of its slowest output, along `path`."""

    query: str
    latency_ms: float
    deadline_ms: float
    recovery_ms: float
    bound_ms: float
    network_usage_bytes: float
    standby_usage_bytes: float
    path: tuple[str, ...]


class PlanDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `vivace plan` says."""

    fragments: tuple[FragmentPlan, ...]
    queries: tuple[QueryPlan, ...]
    map: str | None = None


def plan_document(
    plan: Plan, running: Sequence[FragmentRecord], map_file: str | None = None
) -> PlanDocument:
    """A plan, beside what runs."""
    places = {
        (r.query, r.fragment): (r.primary.node, r.secondary.node if r.secondary else None)
        for r in running
    }
    bounds = {query.query: query.bound_ms for query in plan.queries}
    return PlanDocument(
        fragments=tuple(_fragment(placed, bounds, places) for placed in plan.placements),
        queries=tuple(
            QueryPlan(
                query=query.query,
                latency_ms=query.latency_ms,
                deadline_ms=query.deadline_ms,
                recovery_ms=query.recovery_ms,
                bound_ms=query.bound_ms,
                network_usage_bytes=query.network_usage,
                standby_usage_bytes=query.standby_usage,
                path=query.path,
            )
            for query in plan.queries
        ),
        map=map_file,
    )


def plan_view(document: PlanDocument) -> RenderableType:
    """The same for people."""
    if not document.queries:
        return Text("No query runs here; `vivace apply -f …` brings one.")
    parts: list[RenderableType] = [_fragments(document), _queries(document)]
    if document.map:
        parts.append(Text.assemble("Map of the coordinates: ", (document.map, "cyan")))
    return Group(*parts)


def _fragment(
    placed: PlacedOperator,
    bounds: Mapping[str, float],
    places: Mapping[tuple[str, str], tuple[str, str | None]],
) -> FragmentPlan:
    return FragmentPlan(
        query=placed.query,
        fragment=placed.operator,
        primary=placed.primary,
        secondary=placed.secondary,
        detection_ms=placed.detection_ms,
        transfer_ms=placed.transfer_ms,
        reprocess_ms=placed.reprocess_ms,
        recovery_ms=placed.recovery_ms,
        bound_ms=bounds[placed.query],
        runs=places.get((placed.query, placed.operator)) == (placed.primary, placed.secondary),
    )


def _fragments(document: PlanDocument) -> Table:
    table = Table(title="Placement", title_justify="left", title_style="bold", box=None)
    for column in ("fragment", "primary", "secondary"):
        table.add_column(column)
    table.add_column("recovery / bound", justify="right")
    table.add_column("detect + transfer + redo", justify="right", style="dim")
    table.add_column("")
    for each in document.fragments:
        table.add_row(
            f"[dim]{each.query}.[/]{each.fragment}",
            each.primary,
            each.secondary,
            against(each.recovery_ms, each.bound_ms),
            f"{ms(each.detection_ms)} + {ms(each.transfer_ms)} + {ms(each.reprocess_ms)}",
            "" if each.runs else "[yellow]new[/]",
        )
    return table


def _queries(document: PlanDocument) -> Table:
    table = Table(title="\nQueries", title_justify="left", title_style="bold", box=None)
    table.add_column("query")
    table.add_column("latency / deadline", justify="right")
    table.add_column("recovery / bound", justify="right")
    table.add_column("network usage", justify="right")
    table.add_column("slowest way", style="dim")
    for each in document.queries:
        standby = bytes_text(each.standby_usage_bytes)
        table.add_row(
            each.query,
            against(each.latency_ms, each.deadline_ms),
            against(each.recovery_ms, each.bound_ms),
            f"{bytes_text(each.network_usage_bytes)} [dim]({standby} standby)[/]",
            " → ".join(_stop(stop) for stop in each.path),
        )
    return table


def _stop(stop: str) -> str:
    """A stop of a path as the planner names it; of an output only its site, which says it all."""
    return re.sub(r"^.* at (\S+) @ \1$", r"\1", stop)
