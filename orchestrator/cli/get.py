"""`vivace get`: the things of a kind."""

from __future__ import annotations

from typing import Annotated

from rich.console import RenderableType

from orchestrator.cli.arguments import Argument
from orchestrator.cli.invocation import ClusterOption, ListForm, ListFormOption, connected, show
from orchestrator.cli.render.kinds import KINDS
from orchestrator.operations.parameters import Parameters

KindArgument = Annotated[str, Argument(help=f"{', '.join(KINDS)}.", values=tuple(KINDS))]


def command(
    kind: KindArgument,
    cluster: ClusterOption = None,
    form: ListFormOption = ListForm.TABLE,
) -> None:
    """List the things of a kind.

    [bold]Example:[/] vivace get fragments -o wide
    """
    listed = KINDS[kind]
    with connected(cluster) as client:
        found = client.call(listed.operation, Parameters())

    things = listed.things(found)

    def view() -> RenderableType:
        if not things:
            return f"There are no {kind} here."
        return listed.kind.table(things, wide=form is ListForm.WIDE)

    show(found, form, view, lambda: map(listed.kind.name, things))
