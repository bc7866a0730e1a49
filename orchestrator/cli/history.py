"""`vivace history`: the events of a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from rich.console import RenderableType

from orchestrator.cli.arguments import Option
from orchestrator.cli.invocation import ClusterOption, ListForm, ListFormOption, connected, show
from orchestrator.cli.render.history import events_table
from orchestrator.operations import table
from orchestrator.operations.parameters import HistoryParameters


def command(
    limit: Annotated[int, Option("--limit", "-n", min=1, help="The newest so many.")] = 50,
    cluster: ClusterOption = None,
    form: ListFormOption = ListForm.TABLE,
) -> None:
    """Show events: nodes that came and went, takeovers, applied and deleted queries.

    [bold]Example:[/] vivace history --limit 20
    """
    with connected(cluster) as client:
        document = client.call(table.HISTORY, HistoryParameters(limit=limit))

    def view() -> RenderableType:
        if not document.history:
            return "Nothing has happened yet."
        return events_table(document.history, wide=form is ListForm.WIDE)

    def subjects() -> Iterable[str]:
        return dict.fromkeys(each.subject for each in document.history)

    show(document, form, view, subjects)
