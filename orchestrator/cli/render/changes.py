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
        elif change.effect is api.Effect.CHANGED:
            effect, mark = "would be changed" if dry_run else effect, "[yellow]~[/]"
        table.add_row(mark, change.kind.lower(), f"[bold]{change.name}[/]", effect)
    return table


def changed_view(changed: api.ChangedQuery) -> RenderableType:
    """What a change does to a query: its fields, and the state of each statement."""
    title = f"Change of query {changed.query}"
    if changed.savepoint:
        title = f"Query {changed.query} from savepoint {changed.savepoint}"
    table = Table(title=title, title_justify="left", title_style="bold", box=None)
    for column in ("", "what becomes of it"):
        table.add_column(column)
    for field in changed.fields:
        table.add_row(field.field, f"{field.was} → {field.now}")
    for each in changed.statements:
        table.add_row(f"{changed.query}.{each.fragment}", _effect(changed, each))
    if changed.moves:
        table.add_row("places", f"{changed.moves} moves, since the present ones do not do")
    return table


def _effect(changed: api.ChangedQuery, each: api.ChangedStatement) -> str:
    if each.effect is not api.StatementEffect.ANEW:
        return each.effect.value + (f": {each.why}" if each.why else "")
    return f"[yellow]{each.effect.value}[/], from {changed.begin.value}: {each.why}"
