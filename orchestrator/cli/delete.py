"""`vivace delete`: take queries and streams out of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from orchestrator import api
from orchestrator.cli.arguments import Argument, Option
from orchestrator.cli.invocation import (
    ClusterOption,
    FormOption,
    OutputForm,
    connected,
    progress,
    show,
)


def command(
    names: Annotated[
        list[str] | None,
        Argument(metavar="[NAME]...", help="Queries, or streams that no other query reads."),
    ] = None,
    files: Annotated[
        list[Path] | None,
        Option("-f", "--file", help="What a manifest or a folder of them names; may be repeated."),
    ] = None,
    keep_streams: Annotated[
        bool,
        Option(
            "--keep-streams",
            help="Keep streams that nothing reads then, and those that files name: the query can "
            "go on from a savepoint (`vivace apply --from`).",
        ),
    ] = False,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Delete queries, and the streams that nothing else reads; or streams that no query reads.

    All of it is checked before anything is deleted.

    [bold]Example:[/] vivace delete proximity

    [bold]Example:[/] vivace delete -f examples/aircraft
    """
    if not names and not files:
        raise api.InvalidInput(
            "command line", "NAME", None, "is missing", "Name a query, a stream, or a file with -f."
        )
    with connected(cluster) as client, progress("Delete") as line:
        deleted = client.delete(
            *(names or ()), manifests=files or (), keep_streams=keep_streams,
            on_progress=line.tell,
        )  # fmt: skip
    show({"deleted": deleted}, form, lambda: _told(deleted))


def _told(deleted: api.Deleted) -> str:
    what = [
        f"{kind if len(names) == 1 else plural} [bold]{', '.join(names)}[/]"
        for kind, plural, names in (
            ("query", "queries", deleted.queries),
            ("stream", "streams", deleted.streams),
        )
        if names
    ]
    absent = f" Not there: {', '.join(deleted.absent)}." if deleted.absent else ""
    return f"Deleted {', and '.join(what)}.{absent}"
