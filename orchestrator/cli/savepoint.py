"""`vivace savepoint`: the state of all queries, kept under a name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Group, RenderableType

from orchestrator import api
from orchestrator.cli.arguments import Argument
from orchestrator.cli.invocation import (
    ClusterOption,
    FormOption,
    OutputForm,
    connected,
    progress,
    show,
)
from orchestrator.cli.render.figures import bytes_text, count, moment
from orchestrator.cli.render.tables import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.results.savepoints import SavepointStatus

HELP = """Savepoints: the state of all queries, kept under a name. `vivace up --from` begins there.

    [bold]Example:[/] vivace savepoint create before-upgrade
    """

NameArgument = Annotated[
    str, Argument(help="Its name, as `vivace savepoint list` shows it.", metavar="NAME")
]


def create(
    name: Annotated[
        str | None,
        Argument(help="Small letters, digits and hyphens. Default: date and time.", metavar="NAME"),
    ] = None,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Keep the state of all queries under a name, until it is deleted. Queries run on meanwhile.

    [bold]Example:[/] vivace savepoint create before-upgrade
    """
    with connected(cluster) as client, progress("Savepoint") as line:
        made = client.create_savepoint(name, on_progress=line.tell)
    show(made, form, lambda: details(made))


def list_savepoints(cluster: ClusterOption = None, form: FormOption = OutputForm.TABLE) -> None:
    """List the savepoints, the newest last.

    [bold]Example:[/] vivace savepoint list
    """
    with connected(cluster) as client:
        found = client.savepoints()
    show(found, form, lambda: _rows(found.savepoints))


def show_one(
    name: NameArgument, cluster: ClusterOption = None, form: FormOption = OutputForm.TABLE
) -> None:
    """Show one savepoint, with the state of each fragment.

    [bold]Example:[/] vivace savepoint show before-upgrade
    """
    with connected(cluster) as client:
        found = client.savepoint(name)
    show(found, form, lambda: details(found))


def delete(
    name: NameArgument, cluster: ClusterOption = None, form: FormOption = OutputForm.TABLE
) -> None:
    """Delete a savepoint with its files.

    [bold]Example:[/] vivace savepoint delete before-upgrade
    """
    with connected(cluster) as client, progress("Savepoint") as line:
        left = client.delete_savepoint(name, on_progress=line.tell)
    show(left, form, lambda: _rows(left.savepoints))


def export(
    name: NameArgument,
    target: Annotated[
        Path, Argument(help="A folder, or a file that ends in .tar.", metavar="TARGET")
    ],
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Copy a savepoint out of the cluster's folder, which must be reached from here.

    [bold]Example:[/] vivace savepoint export before-upgrade before-upgrade.tar
    """
    with connected(cluster) as client, progress("Savepoint") as line:
        copied = api.export_savepoint(client.savepoint(name), target, line.tell)
    show(copied, form, lambda: f"{copied.path}: savepoint {copied.name}, {count(copied.bytes)} B")


def _rows(savepoints: Sequence[SavepointStatus]) -> RenderableType:
    if not savepoints:
        return "There are no savepoints."
    shown = Table(box=None, pad_edge=False)
    for column in ("savepoint", "state", "asked for", "states", "size", "queries", "by"):
        shown.add_column(column)
    for each in savepoints:
        size = bytes_text(each.bytes)
        if each.state == "copying":
            size = f"{bytes_text(each.copied_bytes)} of {size}"
        shown.add_row(
            each.name,
            f"{each.state}: {each.why}" if each.why else each.state,
            moment(each.asked_us),
            str(len(each.states)),
            size,
            ", ".join(each.queries),
            each.by,
        )
    return shown


def details(savepoint: SavepointStatus) -> RenderableType:
    """A savepoint with its states, and how to begin a cluster with it."""
    states = Table(box=None, pad_edge=False)
    for column in ("fragment", "taken", "size"):
        states.add_column(column)
    for each in savepoint.states:
        states.add_row(each.fragment, moment(each.at_us), bytes_text(each.bytes))
    shown: list[RenderableType] = [_rows([savepoint]), "", states]
    shown += [
        f"[yellow]! {fragment} begins from nothing: {why}[/]"
        for fragment, why in savepoint.left_out.items()
    ]
    if savepoint.state == "kept":
        folder, question, options = savepoint.folder.partition("?")
        path = f"{folder}/{savepoint.name}{question}{options}" if folder else savepoint.name
        path = f"'{path}'" if question else path
        begin = f"vivace up -f CLUSTER.yaml --data NEW-FOLDER --from {path}"
        shown += [
            "",
            f"Next: `{begin}` begins there. If both clusters would write to one sink, such as a "
            "Kafka topic, end this one first: `vivace down`.",
        ]
    return Group(*shown)


VERBS = {
    "create": create,
    "list": list_savepoints,
    "show": show_one,
    "delete": delete,
    "export": export,
}
