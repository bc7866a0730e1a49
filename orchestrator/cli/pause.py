"""`vivace pause`: a query gives no results, and keeps its state and its place."""

from __future__ import annotations

from orchestrator.cli.invocation import (
    ClusterOption,
    FormOption,
    OutputForm,
    QueryArgument,
    connected,
    progress,
    show,
)


def command(
    query: QueryArgument,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Have a query give no results, and keep its state and its place, until `vivace resume`.

    Its sources keep what comes, so that nothing is lost or repeated afterwards.

    [bold]Example:[/] vivace pause proximity
    """
    with connected(cluster) as client, progress("Pause") as line:
        found = client.pause(query, on_progress=line.tell)
    was = "is paused" if found.changed else "was paused already"
    show(found, form, lambda: f"Query {query} {was}; `vivace resume {query}` has it go on.")
