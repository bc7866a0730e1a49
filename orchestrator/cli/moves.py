"""`vivace moves`: plans of moves, and how far they are."""

from __future__ import annotations

from orchestrator.cli.invocation import ClusterOption, ListForm, ListFormOption, connected, show
from orchestrator.cli.render.plan_files import move_plans_view


def command(cluster: ClusterOption = None, form: ListFormOption = ListForm.TABLE) -> None:
    """List plans of moves, under way and ended, and how far they are.

    [bold]Example:[/] vivace moves
    """
    with connected(cluster) as client:
        document = client.move_plans()
    show(
        document,
        form,
        lambda: move_plans_view(document),
        lambda: (plan.name for plan in document.plans),
    )
