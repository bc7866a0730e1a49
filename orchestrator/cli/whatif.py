"""`vivace whatif`: what the leader would decide if something were lost, added or otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from orchestrator import api
from orchestrator.cli.arguments import Option
from orchestrator.cli.invocation import (
    ClusterOption,
    FormOption,
    OutputForm,
    connected,
    progress,
    show,
)
from orchestrator.cli.render.whatif import whatif_view


def command(
    without: Annotated[
        list[str] | None,
        Option(
            metavar="NODE|KIND:NAME",
            help="What is lost: a node, application:NAME, machine:NAME, zone:NAME, domain:NAME or "
            "site:NAME; may be repeated.",
        ),
    ] = None,
    load: Annotated[float, Option(help="So many times as much comes in.")] = 1.0,
    latency: Annotated[
        list[str] | None,
        Option(metavar="A:B=TIME", help="A round trip between two hosts; may be repeated."),
    ] = None,
    add_query: Annotated[
        list[Path] | None,
        Option("--add-query", help="A manifest, or a folder of them, that is applied."),
    ] = None,
    add_node: Annotated[
        list[str] | None,
        Option(
            "--add-node",
            metavar="NAME=like:NODE",
            help="One more node where another one is; may be repeated.",
        ),
    ] = None,
    each: Annotated[
        bool,
        Option(
            "--each",
            help="Lose every node, application, machine, zone, domain and site, one at a time.",
        ),
    ] = False,
    play: Annotated[
        str | None,
        Option("--play", metavar="TIME", help="Play it in the simulated world for so long."),
    ] = None,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Say what the leader would decide if something were lost, added or otherwise.

    Nothing is changed: the leader's own code decides on a copy of what the cluster knows.

    [bold]Example:[/] vivace whatif --without uk-south --play 60s
    """
    play_ms = api.lasting("--play", play)
    with connected(cluster) as client, progress("What if") as line:
        document = client.what_if(
            without=without or (), load=load, latency=latency or (), add_query=add_query or (),
            add_node=add_node or (), each=each,
            play_s=None if play_ms is None else play_ms / 1000, on_progress=line.tell,
        )  # fmt: skip
    show(document, form, lambda: whatif_view(document))
