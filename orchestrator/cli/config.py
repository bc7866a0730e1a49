"""`vivace config`: the clusters that the command line knows, and which one it means."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from orchestrator.cli.arguments import Argument, Option
from orchestrator.cli.invocation import FormOption, OutputForm, show
from orchestrator.cli.render.tables import Table
from vivace import contexts

HELP = """Contexts: the clusters that are known here, and which one is meant.

    [bold]Example:[/] vivace config use plant
    """

NameArgument = Annotated[str, Argument(help="Name of the context.")]


class KnownContext(msgspec.Struct, frozen=True, kw_only=True):
    """A context; `local` if `vivace up` has written it."""

    name: str
    api: str
    token_file: str | None
    ca_file: str | None
    local: bool
    used: bool


def list_contexts(form: FormOption = OutputForm.TABLE) -> None:
    """List the contexts.

    [bold]Example:[/] vivace config list
    """
    folder = contexts.home()
    used = contexts.used(folder)
    found = [
        KnownContext(
            name=name, api=each.api, token_file=each.token_file, ca_file=each.ca_file,
            local=each.pid is not None, used=name == used,
        )
        for name, each in contexts.known(folder).items()
    ]  # fmt: skip
    table = Table(box=None, pad_edge=False)
    for column in ("", "context", "address", "token"):
        table.add_column(column)
    for each in found:
        table.add_row("*" if each.used else "", each.name, each.api, each.token_file or "–")
    show(found, form, lambda: table if found else "No cluster is known here.")


def use(name: NameArgument, form: FormOption = OutputForm.TABLE) -> None:
    """Mean a context wherever none is named.

    [bold]Example:[/] vivace config use plant
    """
    contexts.use(name, contexts.home())
    show({"used": name}, form, lambda: f"Context {name} is meant where none is named.")


def add(
    name: NameArgument,
    address: Annotated[
        str, Argument(help="Of the cluster's HTTP API: http://HOST:PORT or https://….")
    ],
    token_file: Annotated[
        Path | None, Option("--token-file", help="The file with the token.")
    ] = None,
    ca_file: Annotated[
        Path | None,
        Option("--ca-file", help="Certificates that vouch for the API's own, in PEM."),
    ] = None,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Keep a context, in place of one of the same name. Nothing is asked of the cluster.

    [bold]Example:[/] vivace config add plant https://vivace.plant:8650 --token-file ~/plant.token
    """
    context = contexts.Context(
        api=address,
        token_file=None if token_file is None else str(token_file.expanduser().absolute()),
        ca_file=None if ca_file is None else str(ca_file.expanduser().absolute()),
    )
    if token_file is not None:
        context.token({})
    contexts.add(name, context, contexts.home())
    show({"added": name}, form, lambda: f"Context {name} is {address}.")


def remove(name: NameArgument, form: FormOption = OutputForm.TABLE) -> None:
    """Forget a context. Its cluster goes on, and its token file stays.

    [bold]Example:[/] vivace config remove plant
    """
    folder = contexts.home()
    contexts.find(name, folder)
    contexts.remove(name, folder)
    show({"removed": name}, form, lambda: f"Context {name} is forgotten.")


VERBS = {"list": list_contexts, "use": use, "add": add, "remove": remove}
