"""`vivace operations`: what the cluster's HTTP API carries out for somebody."""

from __future__ import annotations

from typing import Annotated

from orchestrator.cli.arguments import Argument
from orchestrator.cli.invocation import ClusterOption, FormOption, OutputForm, connected, show

HELP = """Long operations, which the cluster carries out although whoever asked has left.

    [bold]Example:[/] vivace operations cancel drill-series-5f3a9c0b12d4
    """


def cancel(
    operation: Annotated[str, Argument(help="Its name, which who leaves an operation is told.")],
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Have an operation end at its next step. What was consented to is carried out all the same.

    [bold]Example:[/] vivace operations cancel drill-series-5f3a9c0b12d4
    """
    with connected(cluster) as client:
        found = client.cancel(operation)
    running = "ends at its next step" if found.state == "running" else f"is {found.state}"
    show(found, form, lambda: f"Operation {found.name} {running}.")


VERBS = {"cancel": cancel}
