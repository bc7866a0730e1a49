"""`vivace plan`: where fragments run, and their recovery times and latencies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

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
from orchestrator.cli.plan_options import BeginOption, beginning
from orchestrator.cli.render.plan import plan_view


def command(
    files: Annotated[
        list[Path] | None,
        Option("-f", "--file", help="Candidates: what would run if this were applied."),
    ] = None,
    map_file: Annotated[
        Path | None, Option("--map", help="Draw the coordinate map into this file.")
    ] = None,
    explain: Annotated[
        bool, Option("--explain", help="Say what secondaries are sent, and why.")
    ] = False,
    begin: BeginOption = "now",
    cluster: ClusterOption = None,
    form: ListFormOption = ListForm.TABLE,
) -> None:
    """Show the plan: placements, recovery against its bound, latency against the deadline.

    [bold]Example:[/] vivace plan --map map.png
    """
    if map_file is not None:
        check_picture("--map", map_file)
    with connected(cluster) as client:
        read_from, savepoint = beginning(begin)
        document = client.plan(files or (), begin=read_from, savepoint=savepoint)
        draw_map(client, map_file, files or ())
    if map_file is not None:
        document = msgspec.structs.replace(document, map=str(map_file))
    show(
        document,
        form,
        lambda: plan_view(document, explain=explain or form is ListForm.WIDE),
        lambda: (f"{each.query}.{each.fragment}" for each in document.fragments),
    )
