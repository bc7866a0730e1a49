"""`vivace down`: end a cluster."""

from __future__ import annotations

import msgspec
from rich.text import Text

from orchestrator.cli.invocation import ClusterOption, JsonOption, context, progress, show
from orchestrator.deploy.context import home
from orchestrator.deploy.local import background


class DownDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What ended; `killed` are processes that had to be forced."""

    cluster: str
    ended: int
    killed: tuple[int, ...]


def command(cluster: ClusterOption = None, as_json: JsonOption = False) -> None:
    """End a cluster, and wait until all of its processes are gone.

    [bold]Example:[/] vivace down --cluster aircraft
    """
    found = context(cluster)
    with progress(f"Ending cluster {found.cluster}") as line:
        line.tell("waiting", "for Spark and ZooKeeper to end")
        ending = background.end(found, home())
    document = DownDocument(
        cluster=found.cluster, ended=ending.processes, killed=tuple(ending.killed)
    )

    def view() -> Text:
        text = Text.assemble(
            "Cluster ", (found.cluster, "bold"), f" has ended; {ending.processes} processes gone."
        )
        if ending.killed:
            text.append(
                f" {len(ending.killed)} had to be killed; logs are left in {found.logs}.", "yellow"
            )
        return text

    show(document, as_json, view)
