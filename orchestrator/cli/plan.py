"""`vivace plan`: who runs what, and what that promises."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from orchestrator.api.plans import NOTHING, plan_document
from orchestrator.cli.invocation import ClusterOption, JsonOption, context, show
from orchestrator.cli.render.map import draw
from orchestrator.cli.render.mapping import coordinate_map
from orchestrator.cli.render.plan import plan_view
from orchestrator.control.admission import admit
from orchestrator.control.dataflow import dataflow
from orchestrator.control.view import ClusterView, read_view
from orchestrator.errors import InvalidInput
from orchestrator.manifest import Manifests, load
from placement.records import Plan

MAP_SUFFIXES = (".png", ".svg", ".pdf")


def command(
    files: Annotated[
        list[Path] | None,
        typer.Option("-f", "--file", help="Candidates: what would run if this were applied."),
    ] = None,
    map_file: Annotated[
        Path | None, typer.Option("--map", help="Draw the coordinate map into this file.")
    ] = None,
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the plan: placements, recovery against its bound, latency against the deadline.

    [bold]Example:[/] vivace plan --map map.png
    """
    _check_map(map_file)
    manifests = load(files) if files else NOTHING
    with context(cluster).open_store() as store:
        view = read_view(store)
    plan = admit(view, manifests.streams, manifests.queries)
    document = plan_document(view, plan)
    if map_file is not None:
        _draw(view, manifests, plan, map_file)
        document = msgspec.structs.replace(document, map=str(map_file))
    show(document, as_json, lambda: plan_view(document))


def _check_map(file: Path | None) -> None:
    if file is None:
        return
    problem = None
    if file.suffix not in MAP_SUFFIXES:
        problem = "has no suffix of a picture"
    elif not file.absolute().parent.is_dir():
        problem = "is in no existing folder"
    if problem is not None:
        remedy = f"Name a file that ends in {', '.join(MAP_SUFFIXES)}."
        raise InvalidInput("command line", "--map", str(file), problem, remedy)


def _draw(view: ClusterView, manifests: Manifests, plan: Plan, file: Path) -> None:
    streams = view.stream_records | {s.record.name: s.record for s in manifests.streams}
    queries = view.query_records | {q.record.name: q.record for q in manifests.queries}
    planned = {figures.query for figures in plan.queries}
    queries = {name: record for name, record in queries.items() if name in planned}
    drawn = coordinate_map(
        view.settings.name, view.hosts, dataflow(streams, queries), streams, queries, plan
    )
    draw(drawn, file)
