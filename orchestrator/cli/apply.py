"""`vivace apply`: bring streams and queries into a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Group, RenderableType

from orchestrator import api
from orchestrator.cli.arguments import Argument, Option
from orchestrator.cli.invocation import (
    ClusterOption,
    DryRunOption,
    FormOption,
    OutputForm,
    connected,
    progress,
    show,
)
from orchestrator.cli.plan_options import (
    AtATimeOption,
    BeginOption,
    KeepGoingOption,
    ThrottleOption,
    beginning,
    no_proposal,
)
from orchestrator.cli.render.changes import changes_view
from orchestrator.cli.render.moves import exit_status, moves_view
from orchestrator.cli.render.plan import plan_view

if TYPE_CHECKING:
    from vivace.cluster import ClusterClient


def command(
    plan: Annotated[
        Path | None, Argument(help="A plan of moves: what `vivace rebalance --out` has written.")
    ] = None,
    files: Annotated[
        list[Path] | None,
        Option("-f", "--file", help="A manifest, or a folder of them; may be repeated."),
    ] = None,
    proposed: Annotated[
        bool, Option("--proposed", help="The moves that the leader proposes by itself.")
    ] = False,
    begin: BeginOption = "now",
    wait: Annotated[
        bool,
        Option("--wait/--no-wait", help="Wait until all runs with a warm standby, or has moved."),
    ] = True,
    dry_run: DryRunOption = False,
    at_a_time: AtATimeOption = 1,
    keep_going: KeepGoingOption = False,
    throttle: ThrottleOption = None,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> int:
    """Apply streams and queries (-f), or a plan of moves, or those that the leader proposes.

    All of it is checked first. A query that runs is changed in place; --dry-run says what of its
    state is kept, and --from, from where on those statements read whose state is not. A query that
    does not run, such as one that was deleted, begins with the states of the savepoint that --from
    names; --dry-run says which of them it keeps.

    A plan is carried out exactly; if it no longer holds, the exit status is 4. --at-a-time,
    --keep-going and --throttle are for plans.

    [bold]Example:[/] vivace apply -f examples/aircraft

    [bold]Example with a savepoint:[/] vivace apply -f query.yaml --from before-upgrade

    [bold]Example of a plan:[/] vivace apply plan.json --throttle 5MB/s
    """
    if (plan is not None) + bool(files) + proposed != 1:
        is_missing = plan is None and not files
        problem = "is missing" if is_missing else "is there beside another one of these"
        remedy = "Name a plan of moves, or manifests with -f, or say --proposed."
        raise api.InvalidInput("command line", "PLAN", plan, problem, remedy)
    if not files:
        rate_bytes_s = api.state_rate("--throttle", throttle)
        with connected(cluster) as client, progress("Applying") as line:
            moves = client.apply_plan(
                plan or _proposed(client), at_a_time=at_a_time, keep_going=keep_going,
                throttle_bytes_s=rate_bytes_s, dry_run=dry_run, wait=wait, on_progress=line.tell,
            )  # fmt: skip
        show(moves, form, lambda: moves_view(moves))
        return exit_status(moves)
    with connected(cluster) as client, progress("Applying") as line:
        read_from, savepoint = beginning(begin)
        applied = client.apply(
            files, dry_run=dry_run, wait=wait, begin=read_from, savepoint=savepoint,
            on_progress=line.tell,
        )  # fmt: skip
    show(applied, form, lambda: _view(applied))
    return 0


def _proposed(client: ClusterClient) -> api.PlanFile:
    if (found := client.proposal()) is None:
        raise no_proposal()
    return found.plan


def _view(applied: api.Applied) -> RenderableType:
    parts: list[RenderableType] = [changes_view(applied.changes, dry_run=not applied.applied)]
    if any(change.effect is not api.Effect.UNCHANGED for change in applied.changes):
        parts += ["", plan_view(applied.plan)]
    for query, why in applied.planned_again.items():
        parts += ["", f"[yellow]Query {query} was planned again by the leader:[/] {why}."]
    for query, why in applied.begins_anew.items():
        parts += ["", f"[yellow]Query {query} would begin anew if everything died:[/] {why}."]
    if applied.protected and any(change.kind == "Query" for change in applied.changes):
        parts += ["", "[green]✓[/] Every fragment runs, with a warm standby."]
    return Group(*parts)
