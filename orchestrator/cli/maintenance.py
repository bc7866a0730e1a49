"""`vivace maintenance`: processes that are told to end do so one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType

from orchestrator.cli.invocation import (
    ClusterOption,
    DryRunOption,
    FormOption,
    OutputForm,
    connected,
    show,
)
from orchestrator.cli.render.figures import moment
from orchestrator.cli.render.tables import Table

if TYPE_CHECKING:
    from orchestrator.results.maintenance import MaintenanceDocument

HELP = """Which process leaves at present to be replaced, and which ones wait for their turn.

    [bold]Example:[/] vivace maintenance show
    """


def show_slot(cluster: ClusterOption = None, form: FormOption = OutputForm.TABLE) -> None:
    """Show which process leaves at present, and which ones wait for their turn.

    [bold]Example:[/] vivace maintenance show
    """
    with connected(cluster) as client:
        document = client.maintenance()
    show(document, form, lambda: _view(document))


def break_slot(
    dry_run: DryRunOption = False,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Take the slot from the process that has it: that one ends at once, and the next one leaves.

    [bold]Example:[/] vivace maintenance break
    """
    with connected(cluster) as client:
        document = client.break_maintenance(dry_run=dry_run)
    show(document, form, lambda: _view(document))


def _view(document: MaintenanceDocument) -> RenderableType:
    if document.slot is None and not document.waiting:
        return "No process leaves, and none waits to."
    shown = Table(box=None, pad_edge=False)
    for column in ("process", "state", "since", "until", "nodes"):
        shown.add_column(column)
    stays: list[str] = []
    if (slot := document.slot) is not None:
        until = "–" if slot.until_us is None else moment(slot.until_us)
        nodes = ", ".join(slot.nodes)
        shown.add_row(slot.owner, slot.state, moment(slot.since_us), until, nodes)
        stays = [f"[bold]{name}[/] ends with it: {why}" for name, why in slot.stays.items()]
    for each in document.waiting:
        since, until = moment(each.since_us), moment(each.until_us)
        shown.add_row(each.owner, "waits", since, until, ", ".join(each.nodes))
    return Group(shown, *stays)


VERBS = {"show": show_slot, "break": break_slot}
