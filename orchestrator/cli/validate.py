"""`vivace validate`: check manifests without a cluster."""

from __future__ import annotations

from typing import Annotated

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from orchestrator import api
from orchestrator.cli.arguments import Option
from orchestrator.cli.invocation import FilesOption, FormOption, OutputForm, show
from orchestrator.cli.render.tables import Table


def command(
    files: FilesOption,
    insert_delays: Annotated[
        bool,
        Option(
            "--insert-delays",
            help="Insert <NOW> wherever statements read each other without a delay, as rarely as "
            "can be, and print the statements.",
        ),
    ] = False,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Check manifests offline: fields, the queries' text, and names of streams, sites and nodes.

    [bold]Example:[/] vivace validate -f examples/aircraft
    """
    document = api.validate(api.load(files), insert_delays=insert_delays)
    show(document, form, lambda: _view(document))


def _view(document: api.ValidateDocument) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    ok = "[green]✓[/]"
    if document.cluster:
        table.add_row(ok, "cluster", f"[bold]{document.cluster}[/]", "")
    for stream in document.streams:
        table.add_row(ok, "stream", f"[bold]{stream}[/]", "")
    for query, fragments in document.queries.items():
        ways = document.evaluations[query]
        made = ", ".join(
            f"{name} ← {' + '.join(inputs)} ({ways[name]})" for name, inputs in fragments.items()
        )
        table.add_row(ok, "query", f"[bold]{query}[/]", f"[dim]{made}[/]")
        for name, folded in document.pushdowns[query].items():
            for line in folded:
                table.add_row("", "", "", f"[dim]{name}: {line}[/]")
        for name, reason in document.stepwise_loops.get(query, {}).items():
            told = f"{name}: stepwise, not compiled: {reason}"
            table.add_row("", "", "", f"[dim]{escape(told)}[/]")
        for name, ways in document.splits.get(query, {}).items():
            for way in ways:
                below = f" below {way.without[0]}" if way.without else ""
                told = f"{name}: may be split{below}; its panes: {' '.join(way.panes)}"
                table.add_row("", "", "", f"[dim]{escape(told)}[/]")
    remarks = [f"! {remark}" for remark in document.remarks]
    remarks += [
        f"! Stream {stream}: {file} is not found here, and was not checked."
        for stream, file in document.not_found.items()
    ]
    if document.unchecked:
        remarks.append(
            f"! Not checked: {', '.join(document.unchecked)}. "
            "Name the Cluster manifest too, with another -f."
        )
    delayed = [
        Text(f"# Query {query}, with delays:\n{text.rstrip()}")
        for query, text in document.delayed.items()
    ]
    return Group(table, *delayed, *(Text(remark, style="yellow") for remark in remarks))
