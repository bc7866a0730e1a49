"""`vivace preflight`: whether this version may replace those of a cluster, one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from rich.console import Group, RenderableType
from rich.text import Text

from orchestrator import api
from orchestrator.cli.arguments import Option
from orchestrator.cli.invocation import (
    EXIT_FAILED,
    ClusterOption,
    FormOption,
    OutputForm,
    connected,
    progress,
    show,
)
from orchestrator.cli.render.tables import Table


def command(
    files: Annotated[
        list[Path] | None,
        Option("-f", "--file", help="The Cluster manifest that the new processes will get."),
    ] = None,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> int:
    """Say what stands against a rolling upgrade to this version; exit status 1 if anything does.

    Run it with the new version, before it replaces the first process.

    [bold]Example:[/] vivace preflight -f cluster.yaml
    """
    manifest = api.load(files).cluster if files else None
    settings = None if manifest is None else api.cluster_record(manifest)
    with connected(cluster) as client, progress("Preflight") as line:
        line.tell("asking", "what runs, and what the loss of each application would do")
        document = client.preflight(settings)
    show(document, form, lambda: _view(document))
    return EXIT_FAILED if document.obstacles else 0


def _view(document: api.PreflightDocument) -> RenderableType:
    table = Table("process", "kind", "version", box=None, padding=(0, 2, 0, 0))
    for each in document.processes:
        table.add_row(each.name, each.kind, str(each.versions))
    told: list[RenderableType] = [
        Text.assemble(("✗ ", "bold red"), f"{each.why}. {each.remedy}")
        for each in document.obstacles
    ]
    told = told or [Text(f"✓ {document.version} may replace them, one by one.", style="green")]
    return Group(table, "", *told)
