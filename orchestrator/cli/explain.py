"""`vivace explain`: why a fragment is where it is, or why a query is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from orchestrator import api
from orchestrator.cli.arguments import Argument, Option
from orchestrator.cli.invocation import ClusterOption, FormOption, OutputForm, connected, show
from orchestrator.cli.render.explain import explanation_view, refusal_view


def command(
    fragment: Annotated[
        str | None, Argument(help="The fragment whose places are explained.")
    ] = None,
    files: Annotated[
        list[Path] | None,
        Option("-f", "--file", help="Manifests: why they would be refused, and what would help."),
    ] = None,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Say why replicas are where they are: what each node would cost, and what stands against it.

    With -f, say what would have to change for a refused query to be admitted.

    [bold]Example:[/] vivace explain alerts
    """
    if (fragment is None) is (files is None):
        problem = "is needed, or manifests with -f, and not both"
        remedy = "`vivace status` names the fragments."
        raise api.InvalidInput("command line", "FRAGMENT", fragment, problem, remedy)
    with connected(cluster) as client:
        if fragment is not None:
            found = client.explain(fragment)
            show(found, form, lambda: explanation_view(found))
        else:
            refusal = client.explain_refusal(files or ())
            show(refusal, form, lambda: refusal_view(refusal))
