"""Explanations as tables: the streams that pull at a replica, and the price of every node."""

from __future__ import annotations

from rich.console import Group, RenderableType

from orchestrator import api
from orchestrator.cli.render.figures import bytes_text, ms
from orchestrator.cli.render.plan import PRINTED
from orchestrator.cli.render.tables import Table


def explanation_view(document: api.FragmentExplanation) -> RenderableType:
    """Both replicas."""
    rates = "measured" if document.measured else "as manifests state them, where none is measured"
    printed = f" It was placed by the {PRINTED}, which look at no such prices."
    printed = printed if document.as_printed else ""
    return Group(
        *_replica(f"{document.fragment}, primary", document.primary),
        "",
        *_replica(f"{document.fragment}, secondary", document.secondary),
        "",
        f"Prices are network usage and load, in bytes under way, by the figures of this moment, if "
        f"this replica alone moves; `vivace rebalance` may move several. Rates: {rates}.{printed}",
    )


def _replica(title: str, place: api.ReplicaPlace) -> list[RenderableType]:
    table = Table(box=None, pad_edge=False)
    for column in ("node", "price", "streams", "standby", "load"):
        table.add_column(column, justify="left" if column == "node" else "right")
    table.add_column("what stands against it")
    for each in place.candidates:
        here = each.problem is None
        table.add_row(
            f"[bold]{each.node}[/]" if here else each.node,
            bytes_text(each.total_bytes),
            bytes_text(each.usage_bytes),
            bytes_text(each.standby_bytes),
            bytes_text(each.load_bytes),
            "it is here" if here else f"{each.reason}: {_without(each.reason, each.problem)}",
        )
    binding = "Nothing keeps it from a cheaper node but the effort of moving."
    if place.binding is not None:
        binding = f"What binds: {place.binding}."
    elif place.candidates and place.candidates[0].node == place.node:
        binding = "No node is cheaper."
    elif any(each.reason == "worth it" for each in place.candidates):
        binding = "Nothing keeps it from a cheaper node; `vivace rebalance` moves what is worth it."
    return [f"[bold]{title} on {place.node}[/]", _streams(place), "", table, binding]


def _streams(place: api.ReplicaPlace) -> RenderableType:
    table = Table(box=None, pad_edge=False)
    for column in ("stream", "rate", "latency", "cost"):
        table.add_column(column, justify="left" if column == "stream" else "right")
    for each in place.streams:
        role = ", secondary" if each.is_secondary else ""
        way = "from" if each.incoming else "to"
        other = each.fragment or "readers in other queries"
        table.add_row(
            f"{way} {other}{role} on {each.node}",
            f"{bytes_text(each.rate_bytes_s)}/s",
            ms(each.latency_ms),
            bytes_text(each.cost_bytes),
        )
    return table


def _without(reason: str | None, problem: str | None) -> str:
    return (problem or "").removeprefix(f"{reason}: ")


def refusal_view(document: api.RefusalExplanation) -> RenderableType:
    """Why it is refused, and each change that would help."""
    if document.problem is None:
        return "It would be admitted."
    parts: list[RenderableType] = [f"[bold red]Refused:[/] {document.problem}", document.remedy]
    for each in document.changes:
        if each.field == "load":
            parts.append(f"query {each.query} would be admitted if nodes and machines had room.")
            continue
        pairs = zip(each.stated, each.needed, strict=True)
        figures = ", ".join(f"{ms(stated)} → {ms(needed)}" for stated, needed in pairs)
        parts.append(f"query {each.query} would be admitted with {each.field} {figures}.")
    if not document.changes:
        parts.append("No longer deadline or recovery bound would help, nor more room.")
    return Group(*(part for part in parts if part))
