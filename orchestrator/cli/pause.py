"""`vivace pause`: nothing is moved that nobody asks for."""

from __future__ import annotations

from typing import Annotated

from orchestrator import api
from orchestrator.cli.arguments import Option
from orchestrator.cli.invocation import ClusterOption, FormOption, OutputForm, connected, show
from orchestrator.cli.render.automation import automation_view


def command(
    lasts: Annotated[
        str | None, Option("--for", help="For how long, such as 2h; else until `vivace resume`.")
    ] = None,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Have the leader plan and move nothing that nobody asks for.

    [bold]Example:[/] vivace pause --for 2h
    """
    for_ms = api.lasting("--for", lasts)
    with connected(cluster) as client:
        found = client.pause(None if for_ms is None else for_ms / 1e3)
    show(found, form, lambda: automation_view(found))
