"""`vivace describe`: all that is known of one thing."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from orchestrator.cli.arguments import Argument
from orchestrator.cli.invocation import ClusterOption, ListForm, ListFormOption, connected, show
from orchestrator.cli.render.description import description_view


class Described(Enum):
    """The kinds there are."""

    NODE = "node"
    QUERY = "query"
    STREAM = "stream"
    FRAGMENT = "fragment"
    OUTPUT = "output"
    MOVE = "move"
    PROPOSAL = "proposal"


def command(
    kind: Annotated[Described, Argument(help=f"{', '.join(each.value for each in Described)}.")],
    name: Annotated[str, Argument(help="Its name, as `vivace get` shows it.")],
    cluster: ClusterOption = None,
    form: ListFormOption = ListForm.TABLE,
) -> None:
    """Tell all of one thing: its place and why, recovery, latency, what it has to do with, events.

    [bold]Example:[/] vivace describe fragment proximity.alerts
    """
    with connected(cluster) as client:
        found = client.describe(kind.value, name)
    wide = form is ListForm.WIDE
    show(found, form, lambda: description_view(found, wide=wide), lambda: [found.name])
