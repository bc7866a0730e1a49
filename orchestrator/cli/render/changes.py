"""The effect of applying on each stream and query."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType

from orchestrator import api
from orchestrator.cli.render.tables import Table


def changes_view(changes: Sequence[api.Change], *, dry_run: bool) -> RenderableType:
    """A line for each manifest."""
    if not changes:
        return "The files hold no stream and no query."
    table = Table.grid(padding=(0, 1))
    for change in changes:
        effect, mark = change.effect.value, "[dim]=[/]"
        if change.effect is api.Effect.NEW:
            effect, mark = "would be new" if dry_run else effect, "[green]+[/]"
        table.add_row(mark, change.kind.lower(), f"[bold]{change.name}[/]", effect)
    return table
