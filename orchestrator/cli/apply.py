"""`vivace apply`: bring streams and queries into a cluster."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.console import Group, RenderableType

from orchestrator.api.applying import Change, Effect, await_protected, changes, check_cluster, write
from orchestrator.cli.invocation import (
    ClusterOption,
    FilesOption,
    JsonOption,
    context,
    progress,
    show,
)
from orchestrator.cli.render.changes import changes_view
from orchestrator.cli.render.plan import PlanDocument, plan_document, plan_view
from orchestrator.control.admission import admit
from orchestrator.control.view import read_view
from orchestrator.manifest import load


class ApplyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What was applied, and where it was planned to run.

    `protected` says whether every new fragment has been seen to run with a warm standby.
    """

    cluster: str
    changes: tuple[Change, ...]
    plan: PlanDocument
    applied: bool
    protected: bool


def command(
    files: FilesOption,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until all runs with a warm standby.")
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and plan, but change nothing.")
    ] = False,
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Apply streams and queries. All of it is checked and planned before anything is changed.

    [bold]Example:[/] vivace apply -f examples/aircraft
    """
    manifests = load(files)
    found = context(cluster)
    with found.open_store() as store, progress("Applying") as line:
        view = read_view(store)
        if manifests.cluster is not None:
            check_cluster(view, manifests.cluster)
        plan = admit(view, manifests.streams, manifests.queries)
        made = changes(view, manifests)
        if not dry_run:
            write(store, view, manifests)
            if wait:
                await_protected(store, [q.record.name for q in manifests.queries], line.tell)
            view = read_view(store)
            if wait:
                # What runs, rather than what admission expected: the leader plans for itself.
                plan = admit(view, (), ())
    document = ApplyDocument(
        cluster=found.cluster,
        changes=made,
        plan=plan_document(plan, [record.record for record in view.fragments.values()]),
        applied=not dry_run,
        protected=wait and not dry_run,
    )

    def show_all() -> RenderableType:
        parts: list[RenderableType] = [changes_view(made, dry_run=dry_run)]
        if any(change.effect is Effect.NEW for change in made):
            parts += ["", plan_view(document.plan)]
        if document.protected and manifests.queries:
            parts += ["", "[green]✓[/] Every fragment runs, with a warm standby."]
        return Group(*parts)

    show(document, as_json, show_all)
