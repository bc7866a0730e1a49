"""What applying does, or would do."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table

from orchestrator.api.applying import Change, Effect

_marks = {Effect.NEW: "[green]+[/]", Effect.UNCHANGED: "[dim]=[/]"}


def changes_view(changes: Sequence[Change], *, dry_run: bool) -> RenderableType:
    """A line for each manifest."""
    if not changes:
        return "The files hold no stream and no query."
    table = Table.grid(padding=(0, 1))
    for change in changes:
        effect = change.effect.value
        if dry_run and change.effect is Effect.NEW:
            effect = "would be new"
        table.add_row(_marks[change.effect], change.kind.lower(), f"[bold]{change.name}[/]", effect)
    return table
