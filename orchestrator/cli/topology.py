"""`vivace topology`: hosts in latency space, and the round trips among them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from orchestrator.cli.arguments import Option
from orchestrator.cli.invocation import (
    ClusterOption,
    ListForm,
    ListFormOption,
    check_picture,
    connected,
    draw_map,
    show,
)
from orchestrator.cli.render.topology import topology_view


def command(
    plot: Annotated[
        Path | None, Option("--plot", help="Draw the map of coordinates into this file.")
    ] = None,
    cluster: ClusterOption = None,
    form: ListFormOption = ListForm.TABLE,
) -> None:
    """Show coordinates with their errors, and round trips: measured, and by coordinates.

    [bold]Example:[/] vivace topology --plot map.svg
    """
    if plot is not None:
        check_picture("--plot", plot)
    with connected(cluster) as client:
        found = client.topology()
        draw_map(client, plot)
    show(
        found,
        form,
        lambda: topology_view(found, wide=form is ListForm.WIDE),
        lambda: (each.node for each in found.hosts),
    )
