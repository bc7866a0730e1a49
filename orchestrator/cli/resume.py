"""`vivace resume`: a paused query goes on where it was."""

from __future__ import annotations

from rich.console import Group

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
    """Have a paused query go on where it was.

    [bold]Example:[/] vivace resume proximity
    """
    with connected(cluster) as client, progress("Resume") as line:
        found = client.resume(query, on_progress=line.tell)
    lines = [f"Query {query} {'goes on' if found.changed else 'was not paused'}."]
    lines += [f"! {key} begins anew; `vivace history` says why" for key in found.begun_anew]
    show(found, form, lambda: Group(*lines))
