"""`vivace validate`: check manifests without a cluster."""

from __future__ import annotations

import msgspec
from rich.console import RenderableType
from rich.table import Table

from orchestrator.api.checking import check
from orchestrator.cli.invocation import FilesOption, JsonOption, show
from orchestrator.manifest import load


class ValidateDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What was found to be right: fragments by query, each with the streams it reads."""

    cluster: str | None
    streams: tuple[str, ...]
    queries: dict[str, dict[str, tuple[str, ...]]]


def command(files: FilesOption, as_json: JsonOption = False) -> None:
    """Check manifests offline: fields, the queries' text, and names of streams and sites.

    [bold]Example:[/] vivace validate -f examples/aircraft
    """
    manifests = load(files)
    flow = check(manifests)
    document = ValidateDocument(
        cluster=manifests.cluster.name if manifests.cluster else None,
        streams=tuple(stream.record.name for stream in manifests.streams),
        queries={
            query.record.name: {
                fragment.name: tuple(fragment.inputs) for fragment in flow.of(query.record.name)
            }
            for query in manifests.queries
        },
    )
    show(document, as_json, lambda: _view(document))


def _view(document: ValidateDocument) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    ok = "[green]✓[/]"
    if document.cluster:
        table.add_row(ok, "cluster", f"[bold]{document.cluster}[/]", "")
    for stream in document.streams:
        table.add_row(ok, "stream", f"[bold]{stream}[/]", "")
    for query, fragments in document.queries.items():
        made = ", ".join(f"{name} ← {' + '.join(inputs)}" for name, inputs in fragments.items())
        table.add_row(ok, "query", f"[bold]{query}[/]", f"[dim]{made}[/]")
    return table if table.row_count else "The files hold no manifest."
