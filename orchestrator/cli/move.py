"""`vivace move`: bring one replica of a fragment to another node."""

from __future__ import annotations

from typing import Annotated

from orchestrator import api
from orchestrator.cli.arguments import Argument, Option
from orchestrator.cli.invocation import (
    ClusterOption,
    DryRunOption,
    FormOption,
    FragmentArgument,
    OutputForm,
    WaitOption,
    connected,
    progress,
    show,
)
from orchestrator.cli.render.moves import exit_status, moves_view


def command(
    fragment: FragmentArgument,
    role: Annotated[str | None, Argument(help="Which replica: primary or secondary.")] = None,
    node: Annotated[str | None, Argument(help="Where it goes.")] = None,
    abort: Annotated[
        bool, Option("--abort", help="Take back a move of the fragment that is under way.")
    ] = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = True,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> int:
    """Bring a replica of a fragment to another node. A third one starts there and takes its place.

    [bold]Example:[/] vivace move alerts primary uk-south
    """
    if abort:
        with connected(cluster) as client:
            names = client.withdraw(fragment)
        show({"withdrawn": names}, form, lambda: f"Withdrawn: {', '.join(names)}.")
        return 0
    if role not in ("primary", "secondary"):
        problem = "is missing" if role is None else "is no role"
        raise api.InvalidInput("command line", "ROLE", role, problem, "Say primary or secondary.")
    if node is None:
        raise api.InvalidInput("command line", "NODE", None, "is missing", "Say where it goes.")
    with connected(cluster) as client, progress("Move") as line:
        document = client.move(
            fragment, role, node, dry_run=dry_run, wait=wait, on_progress=line.tell
        )
    show(document, form, lambda: moves_view(document))
    return exit_status(document)
