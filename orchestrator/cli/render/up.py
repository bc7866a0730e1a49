"""How to reach a started cluster, and the commands that usually come next."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from orchestrator import api
from orchestrator.cli.render.tables import Table


def up_view(document: api.UpDocument, *, foreground: bool) -> RenderableType:
    """How to reach the cluster, and which commands come next."""
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
    first = "" if document.goes_on else f"`vivace apply -f {document.example}`, "
    next_steps = Text.assemble(
        ("Next: ", "bold"),
        f"{follow}{first}`vivace status`, `vivace plan --map map.png`; {end}.",
    )
    ready = " is ready, with all that it ran before." if document.goes_on else " is ready."
    return Group(
        Text.assemble(("Cluster ", ""), (document.cluster, "bold"), ready),
        facts,
        next_steps,
    )
