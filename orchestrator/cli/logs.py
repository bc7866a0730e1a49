"""`vivace logs`: the end of a process's log."""

from __future__ import annotations

from typing import Annotated

from rich.text import Text

from orchestrator.cli.arguments import Argument, Option
from orchestrator.cli.invocation import ClusterOption, FormOption, OutputForm, connected, show


def command(
    process: Annotated[
        str, Argument(help="A node, a site, a coordinator, web, or a file of logs by its name.")
    ],
    lines: Annotated[
        int, Option("--lines", "-n", min=1, max=10_000, help="The last so many.")
    ] = 200,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Show the last lines of a process's log, or say where it is.

    The log of a node is that of its Spark application.

    [bold]Example:[/] vivace logs coordinator-1 -n 50
    """
    with connected(cluster) as client:
        found = client.logs(process, lines)
    show(found, form, lambda: Text("\n".join(found.lines)))
