"""`vivace up`: start a cluster on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.invocation import FilesOption, JsonOption, messages, progress, show
from orchestrator.cli.render.reach import reach_document, reach_view
from orchestrator.deploy.context import ClusterContext, ClusterExists, home, running
from orchestrator.deploy.embedded.ports import PortTaken, is_free
from orchestrator.deploy.local import background
from orchestrator.deploy.local.service import Order, serve
from orchestrator.errors import InvalidInput
from orchestrator.manifest import ClusterManifest, cluster_record, load


def command(
    files: FilesOption,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay until Ctrl-C instead of returning.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder for data and logs, kept; a temporary one if not given."),
    ] = None,
    zookeeper_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port of ZooKeeper; a free one if not given."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Start a cluster on this machine: ZooKeeper, Spark, sites and a coordinator.

    [bold]Example:[/] vivace up -f examples/aircraft/cluster.yaml
    """
    manifest = _cluster(files)
    order = Order(
        manifest=manifest,
        home=home().absolute(),
        data=data.absolute() if data else None,
        zookeeper_port=zookeeper_port,
    )
    _refuse_early(order)

    def ready(context: ClusterContext) -> None:
        document = reach_document(context, manifest)
        show(document, as_json, lambda: reach_view(document, foreground=foreground))

    with progress(f"Starting cluster {manifest.name}") as line:
        if not foreground:
            context = background.start(order, line.tell)
            line.close()
            ready(context)
            return

        def stay(context: ClusterContext) -> None:
            line.close()
            ready(context)

        serve(order, line.tell, stay)
    messages().print(f"Cluster {manifest.name} has ended.")


def _cluster(files: list[Path]) -> ClusterManifest:
    manifest = load(files).cluster
    if manifest is None:
        raise InvalidInput(
            ", ".join(map(str, files)),
            "kind",
            None,
            "holds no manifest of kind Cluster",
            "Name a file with one, such as examples/aircraft/cluster.yaml.",
        )
    return manifest


def _refuse_early(order: Order) -> None:
    """What the cluster's process would refuse too, but only after it has started."""
    cluster_record(order.manifest)
    if order.manifest.name in running(order.home):
        raise ClusterExists(
            f"{order.manifest.file}: name: cluster {order.manifest.name} runs here already; "
            f"`vivace down --cluster {order.manifest.name}` ends it"
        )
    if order.zookeeper_port is not None and not is_free(order.zookeeper_port):
        raise PortTaken("ZooKeeper", order.zookeeper_port)
