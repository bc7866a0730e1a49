"""Moves of replicas as a table: from where to where, and what that does to the promises."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from orchestrator import api
from orchestrator.cli.invocation import EXIT_FAILED
from orchestrator.cli.render.figures import against
from orchestrator.cli.render.tables import Table

_outcomes = {
    "done": ("done", "green"),
    "failed": ("failed", "bold red"),
    "begun": ("begun", "yellow"),
    "planned": ("planned", ""),
    "unchanged": ("is there already", ""),
}
"""Outcome → what is shown, and its style."""


def exit_status(document: api.MovesDocument) -> int:
    """1 if a move was not made, else 0."""
    return EXIT_FAILED if any(each.outcome == "failed" for each in document.moves) else 0


def moves_view(document: api.MovesDocument) -> RenderableType:
    """The moves, and what is left to say."""
    if not document.moves:
        where = "" if document.cordoned is None else f" {document.cordoned} has no replica."
        return f"Nothing to move.{where}"
    table = Table(box=None, pad_edge=False)
    for column in ("fragment", "primary", "secondary", "recovery / bound", "latency / deadline"):
        table.add_column(column)
    table.add_column("outcome")
    for each in document.moves:
        table.add_row(
            f"[bold]{each.fragment}[/]",
            _way(*each.primary),
            _way(*each.secondary),
            _figure(each.recovery_ms, each.bound_ms),
            _figure(each.latency_ms, each.deadline_ms),
            Text(*_outcomes[each.outcome]),
        )
    parts: list[RenderableType] = [table]
    parts += [
        f"[bold red]{each.fragment}:[/] {each.problem}" for each in document.moves if each.problem
    ]
    if document.name is None:
        parts += ["", "Nothing was changed."]
    elif document.remaining:
        parts += ["", f"Still on {document.cordoned}: {', '.join(document.remaining)}."]
    return Group(*parts)


def _way(before: str, now: str) -> str:
    return before if before == now else f"{before} → [bold]{now}[/]"


def _figure(values_ms: tuple[float, float] | None, limit_ms: float | None) -> Text:
    if values_ms is None or limit_ms is None:
        return Text("–")
    return against(values_ms[1], limit_ms)


def cordon_view(document: api.CordonDocument, *, dry_run: bool) -> str:
    """Whether a node is cordoned, and the replicas there."""
    verb = "would be" if dry_run and document.changed else "is"
    now = document.cordoned != (dry_run and document.changed)
    state = f"{verb} {'cordoned' if now else 'open'}"
    again = "" if document.changed else " already"
    here = ", ".join(document.replicas) or "none"
    return f"[bold]{document.node}[/] {state}{again}; replicas there: {here}."
