"""`vivace up`: start a cluster on this machine."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from rich.markup import escape

from orchestrator import api
from orchestrator.cli.arguments import Option
from orchestrator.cli.invocation import (
    FilesOption,
    FormOption,
    OutputForm,
    messages,
    progress,
    show,
)
from orchestrator.cli.render.up import up_view


def command(
    files: FilesOption,
    foreground: Annotated[
        bool, Option("--foreground", help="Stay until Ctrl-C instead of returning.")
    ] = False,
    data: Annotated[
        Path | None,
        Option(help="Folder for data and logs, kept; a temporary one if not given."),
    ] = None,
    zookeeper_port: Annotated[
        int | None,
        Option(min=1, max=65535, help="Port of ZooKeeper; a free one if not given."),
    ] = None,
    savepoint: Annotated[
        str | None,
        Option(
            "--from",
            help="A savepoint to go on from: its folder or URI, what `vivace savepoint export` has "
            "written, or its name in the folder of `state`.",
            metavar="SAVEPOINT",
        ),
    ] = None,
    allow_state_loss: Annotated[
        bool,
        Option(
            "--allow-state-loss",
            help="Go on although some state of the savepoint cannot be gone on with.",
        ),
    ] = False,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Start a cluster on this machine: ZooKeeper, Spark, sites and coordinators.

    [bold]Example:[/] vivace up -f examples/aircraft/cluster.yaml
    """
    manifests = api.load(files)
    with progress("Starting the cluster") as line:

        def ready(document: api.UpDocument) -> None:
            line.close()
            show(document, form, lambda: up_view(document, foreground=foreground))
            remarks = [f"! {remark}" for remark in document.remarks]
            for remark in (*remarks, *_unapplied(manifests, files, document.goes_on)):
                messages().print(f"[yellow]{escape(remark)}[/]", soft_wrap=True)

        if foreground:
            api.serve(
                manifests,
                ready,
                data=data,
                zookeeper_port=zookeeper_port,
                savepoint=savepoint,
                allow_state_loss=allow_state_loss,
                on_progress=line.tell,
            )
            messages().print("The cluster has ended.")
        else:
            ready(
                api.up(
                    manifests,
                    data=data,
                    zookeeper_port=zookeeper_port,
                    savepoint=savepoint,
                    allow_state_loss=allow_state_loss,
                    on_progress=line.tell,
                )
            )


def _unapplied(manifests: api.Manifests, files: Sequence[Path], goes_on: bool) -> Iterator[str]:
    """That streams and queries among the manifests do not run yet, or may run otherwise."""
    names = [f"stream {each.record.name}" for each in manifests.streams]
    names += [f"query {each.record.name}" for each in manifests.queries]
    if not names:
        return
    again = f"`vivace apply {' '.join(f'-f {shlex.quote(str(file))}' for file in files)}`"
    if goes_on:
        yield f"! What ran before goes on. {again} would change it to {', '.join(names)}."
    else:
        yield f"! Not applied yet: {', '.join(names)}. {again} does it."
