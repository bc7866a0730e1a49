"""How to reach a cluster, and what to do with it next."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.deploy.context import ClusterContext
from orchestrator.manifest import ClusterManifest


class ReachDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `vivace up` says. The secret is not in it: it stays in the context file."""

    cluster: str
    zookeeper: str
    pid: int
    folder: str
    logs: str
    archive: str
    nodes: tuple[str, ...]
    sites: tuple[str, ...]
    example: str


def reach_document(context: ClusterContext, manifest: ClusterManifest) -> ReachDocument:
    """How to reach the cluster."""
    return ReachDocument(
        cluster=context.cluster,
        zookeeper=context.zookeeper,
        pid=context.pid,
        folder=context.folder,
        logs=str(context.logs),
        archive=str(context.archive),
        nodes=tuple(node.name for node in manifest.nodes),
        sites=tuple(site.name for site in manifest.sites),
        example=str(Path(manifest.file.rpartition(":")[0]).parent),
    )


def reach_view(document: ReachDocument, *, foreground: bool) -> RenderableType:
    """The same for people."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column(overflow="fold")
    facts.add_row("nodes", ", ".join(document.nodes))
    facts.add_row("sites", ", ".join(document.sites) or "none")
    facts.add_row("ZooKeeper", document.zookeeper)
    facts.add_row("process", str(document.pid))
    facts.add_row("logs", document.logs)
    facts.add_row("archive", document.archive)
    follow = "in another terminal, " if foreground else ""
    end = "Ctrl-C ends it" if foreground else "`vivace down` ends it"
    next_steps = Text.assemble(
        ("Next: ", "bold"),
        f"{follow}`vivace apply -f {document.example}`, `vivace status`, "
        f"`vivace plan --map map.png`; {end}.",
    )
    return Group(
        Text.assemble(("Cluster ", ""), (document.cluster, "bold"), " is ready."),
        facts,
        next_steps,
    )
