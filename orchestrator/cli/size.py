"""`vivace size`: what the processes of a cluster need of their machines."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from orchestrator import api
from orchestrator.cli.invocation import FilesOption, FormOption, OutputForm, show
from orchestrator.cli.render.tables import Table


def command(files: FilesOption, form: FormOption = OutputForm.TABLE) -> None:
    """Say what processors and memory each process needs, with all that it starts.

    Name the Cluster manifest, and those of all streams and queries that will run.

    [bold]Example:[/] vivace size -f examples/aircraft
    """
    document = api.cluster_sizes(api.load(files))
    show(document, form, lambda: _view(document))


def _view(document: api.SizeDocument) -> RenderableType:
    right = ("count", "cores", "heap", "overhead", "limit")
    processes = Table("process", box=None, padding=(0, 2, 0, 0))
    for heading in right:
        processes.add_column(heading, justify="right")
    processes.add_column("the overhead is for")
    for each in document.processes:
        parts = " + ".join(f"{part} {mib:,.0f}" for part, mib in each.parts.items())
        processes.add_row(
            each.process,
            str(each.count),
            f"{each.cores:g}",
            f"{each.heap_mib:,} MiB" if each.heap_mib else "–",
            f"{each.overhead_mib:,} MiB",
            f"{each.limit_mib:,} MiB",
            parts,
        )
    states = Table("fragment", "evaluated by", box=None, padding=(0, 2, 0, 0))
    for heading in ("tuples", "state"):
        states.add_column(heading, justify="right")
    for each in document.states:
        tuples = "no bound" if each.tuples is None else f"{each.tuples:,.0f}"
        name = f"{each.query}.{each.fragment}"
        states.add_row(name, each.way, tuples, f"{each.state_mib:,.1f} MiB")
    told: list[RenderableType] = [processes]
    told += ["", states] if document.states else []
    told += [Text(f"! {remark}", style="yellow") for remark in document.remarks]
    return Group(*told)
