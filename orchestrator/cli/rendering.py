"""`vivace render`: the files with which others start a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from rich.console import Group, RenderableType
from rich.text import Text

from orchestrator import api
from orchestrator.cli.arguments import Option
from orchestrator.cli.invocation import FilesOption, FormOption, OutputForm, show

HELP = """Write the files that start a cluster: on several machines, or in one container.

    [bold]Example:[/] vivace render compose -f cluster.yaml --out deploy
    """

OutOption = Annotated[Path, Option("--out", help="The folder to write; it is made if missing.")]

OverwriteOption = Annotated[
    bool,
    Option("--overwrite", help="The folder may have files already. Its secrets stay as they are."),
]


def standalone(
    files: FilesOption,
    machines: Annotated[
        list[str],
        Option("--machine", help="NAME=ADDRESS of each machine; those named first have ZooKeeper."),
    ],
    out: OutOption,
    placed: Annotated[
        list[str] | None,
        Option(
            "--place",
            help="PROCESS=MACHINE, where a site (site-NAME), a driver (driver-NAME), a coordinator "
            "(coordinator-NUMBER) or the API (web) is to run. Default: in turn.",
        ),
    ] = None,
    python: Annotated[
        str, Option("--python", help="Interpreter that Vivace is installed for, on each machine.")
    ] = "/opt/vivace/bin/python",
    folder: Annotated[
        str, Option("--folder", help="Where a machine's rendered folder will be there.")
    ] = "/etc/vivace",
    data: Annotated[
        str, Option("--data", help="Folder there for what processes write.")
    ] = "/var/lib/vivace",
    user: Annotated[str, Option("--user", help="Who runs the processes there.")] = "vivace",
    overwrite: OverwriteOption = False,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Write a folder for each machine of a Spark standalone cluster: scripts, settings, units.

    [bold]Example:[/] vivace render standalone -f cluster.yaml --machine one=10.0.0.1
    --machine two=10.0.0.2 --machine three=10.0.0.3 --out deploy
    """
    document = api.render_standalone(
        _cluster(files),
        machines,
        out,
        placed=placed or (),
        paths=api.MachinePaths(python=python, folder=folder, data=data, user=user),
        overwrite=overwrite,
    )
    show(document, form, lambda: _view(document))


def compose(
    files: FilesOption,
    out: OutOption,
    image: Annotated[
        str, Option("--image", help="Image to run. Default: vivace, of this version.")
    ] = "",
    overwrite: OverwriteOption = False,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Write a compose.yaml that runs a whole cluster in one container.

    [bold]Example:[/] vivace render compose -f examples/http/cluster.yaml --out deploy
    """
    document = api.render_compose(_cluster(files), out, image=image, overwrite=overwrite)
    show(document, form, lambda: _view(document))


def _cluster(files: list[Path]) -> api.ClusterManifest:
    manifests = api.load(files)
    if manifests.cluster is None:
        remedy = "Name the file with the manifest of kind Cluster."
        raise api.InvalidInput("command line", "--file", None, "names no cluster", remedy)
    return manifests.cluster


def _view(document: api.RenderDocument) -> RenderableType:
    found = Text.assemble(
        ("✓ ", "green"), f"{document.folder}: {len(document.files)} files for cluster ",
        (document.cluster, "bold"), ".",
    )  # fmt: skip
    told = [Text(f"  {name}: {', '.join(names)}") for name, names in document.machines.items()]
    secret = [each.path for each in document.files if each.mode == "0600"]
    if secret:
        told.append(Text(f"· {len(secret)} of them are secrets: keep the folder to yourself."))
    told += [Text(f"! {remark}", style="yellow") for remark in document.remarks]
    return Group(found, *told)


VERBS = {"standalone": standalone, "compose": compose}
