"""`vivace resume`: end a pause."""

from __future__ import annotations

from orchestrator.cli.invocation import ClusterOption, FormOption, OutputForm, connected, show
from orchestrator.cli.render.automation import automation_view


def command(cluster: ClusterOption = None, form: FormOption = OutputForm.TABLE) -> None:
    """End a pause: the leader may look for moves again.

    [bold]Example:[/] vivace resume
    """
    with connected(cluster) as client:
        found = client.resume()
    show(found, form, lambda: automation_view(found))
