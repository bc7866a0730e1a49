"""`vivace rebalance`: plan the moves that are worth it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from orchestrator import api
from orchestrator.cli.arguments import Option
from orchestrator.cli.invocation import (
    ClusterOption,
    FormOption,
    OutputForm,
    connected,
    messages,
    progress,
    show,
)
from orchestrator.cli.plan_options import no_proposal
from orchestrator.cli.render.automation import proposal_view
from orchestrator.cli.render.plan_files import plan_file_view


def command(
    goal: Annotated[
        list[str] | None,
        Option(
            "--goal",
            help="network, balance, recovery, deadline-slack or evacuate:NODE; may be repeated: "
            "each is improved as far as those before it get no more than 1 % worse.",
        ),
    ] = None,
    max_moves: Annotated[int, Option("--max-moves", min=1, help="Most moves.")] = 10,
    max_bytes: Annotated[
        str | None, Option("--max-bytes", help="Most bytes of state that move, such as 500MB.")
    ] = None,
    query: Annotated[
        str | None, Option("--query", help="The only query whose fragments may move.")
    ] = None,
    out: Annotated[
        Path | None, Option("--out", help="Keep the plan in this file, for `vivace apply`.")
    ] = None,
    proposed: Annotated[
        bool,
        Option("--proposed", help="Show the moves that the leader proposes by itself; plan none."),
    ] = False,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Plan the moves that are worth it. Nothing is changed.

    [bold]Example:[/] vivace rebalance --out plan.json
    """
    if out is not None and not out.absolute().parent.is_dir():
        problem, remedy = "is in no existing folder", "Make the folder, or name another one."
        raise api.InvalidInput("command line", "--out", str(out), problem, remedy)
    if proposed:
        _show_proposed(cluster, form, out)
        return
    most = api.size("--max-bytes", max_bytes)
    with connected(cluster) as client, progress("Rebalance") as line:
        plan = client.rebalance(
            *(goal or ()), max_moves=max_moves, max_bytes=most, query=query, on_progress=line.tell
        )
    show(plan, form, lambda: plan_file_view(plan))
    if out is not None:
        write_plan(plan, out)


def _show_proposed(cluster: str | None, form: OutputForm, out: Path | None) -> None:
    with connected(cluster) as client:
        found = client.proposal()
    if found is None:
        raise no_proposal()
    show(found.plan, form, lambda: proposal_view(found))
    if out is not None:
        write_plan(found.plan, out)


def write_plan(plan: api.PlanFile, out: Path) -> None:
    """Keep a plan in a file.

    Raises
    ------
    InvalidInput
        It cannot be written.
    """
    try:
        out.write_bytes(msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n")
    except OSError as error:
        problem = f"cannot be written ({error.strerror})"
        raise api.InvalidInput("command line", "--out", str(out), problem, "") from None
    if plan.moves:
        messages().print(f"Apply it: vivace apply {out}", markup=False, soft_wrap=True)
