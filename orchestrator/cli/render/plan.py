"""A plan as tables: primary and secondary of each fragment, recovery times, latencies, loads."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from orchestrator import api
from orchestrator.cli.render.changes import changed_view
from orchestrator.cli.render.figures import against, bytes_text, ms
from orchestrator.cli.render.loads import loads_table
from orchestrator.cli.render.tables import Table

PRINTED = "papers' methods as printed (`placement: {method: paper}`)"


def plan_view(document: api.PlanDocument, *, explain: bool = False) -> RenderableType:
    """A table of fragments and one of queries.

    Parameters
    ----------
    explain
        Whether to say what secondaries are sent, and why.
    """
    if not document.queries and not document.waiting:
        return Text("No query runs here; `vivace apply -f …` brings one.")
    parts: list[RenderableType] = []
    if document.as_printed:
        parts.append(Text(f"Placed by the {PRINTED}.", style="dim"))
    if document.queries:
        parts.append(_fragments(document))
        parts += [
            Text(
                f"{each.query}.{each.fragment} would not survive the loss of {label}: no other "
                "place keeps what its query promises",
                style="yellow",
            )
            for each in document.fragments
            for label in each.shared
        ]
        if explain:
            parts.append(_standbys(document))
        parts.append(queries_table(document.queries))
        if document.loads:
            parts.append(loads_table(document.loads))
    parts += [
        Text(
            f"{one.fragment} is {'' if one.made else 'not '}{one.kind.value}: {one.why}",
            style="dim",
        )
        for rewrites in document.rewrites.values()
        for one in rewrites
    ]
    parts += [changed_view(each) for each in document.changed]
    for query, why in document.waiting.items():
        parts.append(Text.assemble("Query ", (query, "bold"), f" has no place: {why}"))
    if document.map:
        parts.append(Text.assemble("Map of the coordinates: ", (document.map, "cyan")))
    return Group(*parts)


def _fragments(document: api.PlanDocument) -> Table:
    table = Table(title="Placement", title_justify="left", title_style="bold", box=None)
    for column in ("fragment", "primary", "secondary"):
        table.add_column(column)
    table.add_column("recovery / bound", justify="right")
    table.add_column("detect + transfer + redo", justify="right", style="dim")
    table.add_column("")
    for each in document.fragments:
        table.add_row(
            f"[dim]{each.query}.[/]{each.fragment}",
            _place(each.primary, each.domains[:1]),
            _place(each.secondary, each.domains[1:]) if each.secondary else "[bold red]none[/]",
            against(each.recovery_ms, each.bound_ms),
            f"{ms(each.detection_ms)} + {ms(each.transfer_ms)} + {ms(each.reprocess_ms)}",
            "" if each.runs else "[yellow]new[/]",
        )
    return table


def _standbys(document: api.PlanDocument) -> Table:
    table = Table(title="\nSecondaries", title_justify="left", title_style="bold", box=None)
    for column in ("fragment", "secondary"):
        table.add_column(column)
    table.add_column("sent for it", justify="right")
    table.add_column("why")
    for each in document.fragments:
        if each.secondary is not None and each.standby_bytes_s is not None:
            table.add_row(
                f"[dim]{each.query}.[/]{each.fragment}",
                each.secondary,
                f"{bytes_text(each.standby_bytes_s)}/s",
                each.standby_why,
            )
    return table


def _place(node: str, domain: tuple[str, ...]) -> str:
    """A node, and what it dies with if others do not."""
    return " ".join([node, *(f"[dim]{each}[/]" for each in domain if each)])


def queries_table(queries: Sequence[api.QueryPlan]) -> Table:
    """What is promised to queries."""
    table = Table(title="\nQueries", title_justify="left", title_style="bold", box=None)
    table.add_column("query")
    table.add_column("latency / deadline", justify="right")
    table.add_column("recovery / bound", justify="right")
    table.add_column("network usage", justify="right")
    table.add_column("slowest path", style="dim")
    for each in queries:
        standby = bytes_text(each.standby_usage_bytes)
        table.add_row(
            each.query,
            against(each.latency_ms, each.deadline_ms),
            against(each.recovery_ms, each.bound_ms),
            f"{bytes_text(each.network_usage_bytes)} [dim]({standby} standby)[/]",
            each.way,
        )
    return table
