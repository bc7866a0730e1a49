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
    show,
)
from orchestrator.cli.render.topology import topology_view
from orchestrator.operations import table
from orchestrator.operations.parameters import Parameters


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
        found = client.call(table.TOPOLOGY, Parameters())
        drawn = None if plot is None else client.coordinate_map()
    if plot is not None and drawn is not None:
        # matplotlib and numpy take longer to import than most commands take.
        from orchestrator.cli.render.map import draw

        draw(drawn, plot)
    show(
        found,
        form,
        lambda: topology_view(found, wide=form is ListForm.WIDE),
        lambda: (each.node for each in found.hosts),
    )
