"""`vivace token`: who may ask the cluster's HTTP API, and for what."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated

from rich.console import Group, RenderableType

from orchestrator.cli.arguments import Argument, Option
from orchestrator.cli.invocation import ClusterOption, FormOption, OutputForm, connected, show
from orchestrator.cli.render.figures import moment
from orchestrator.cli.render.tables import Table
from orchestrator.operations import table
from orchestrator.operations.parameters import Parameters, RevokeParameters, TokenParameters

if TYPE_CHECKING:
    from orchestrator.results.tokens import TokenDocument

HELP = """Tokens of the cluster's HTTP API: who may ask it, and for what.

    [bold]Example:[/] vivace token create --role read --days 30
    """


class Role(Enum):
    """What a token permits."""

    READ = "read"
    OPERATE = "operate"


def create(
    role: Annotated[
        Role, Option("--role", help="read: to look at everything; operate: to change things, too.")
    ] = Role.READ,
    days: Annotated[
        float | None, Option("--days", min=0, help="For how long. Default: until it is revoked.")
    ] = None,
    note: Annotated[str, Option("--note", help="Whom or what it is for.")] = "",
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Draw a token. It is shown this once; the cluster keeps a digest.

    [bold]Example:[/] vivace token create --role read --note dashboard
    """
    with connected(cluster) as client:
        asked = TokenParameters(role=role.value, days=days, note=note)
        drawn = client.call(table.TOKEN_CREATE, asked)
    show(drawn, form, lambda: Group(drawn.token, _rows([drawn])))


def list_tokens(cluster: ClusterOption = None, form: FormOption = OutputForm.TABLE) -> None:
    """List the tokens, without what was drawn.

    [bold]Example:[/] vivace token list
    """
    with connected(cluster) as client:
        found = client.call(table.TOKENS, Parameters())
    show(found, form, lambda: _rows(found.tokens))


def revoke(
    token: Annotated[str, Argument(help="Its id, as `vivace token list` shows it.")],
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Have a token permit nothing any more.

    [bold]Example:[/] vivace token revoke 5f3a9c
    """
    with connected(cluster) as client:
        left = client.call(table.TOKEN_REVOKE, RevokeParameters(token=token))
    show(left, form, lambda: _rows(left.tokens))


def _rows(tokens: Sequence[TokenDocument]) -> RenderableType:
    if not tokens:
        return "There are no tokens but the one that the API was started with."
    shown = Table(box=None, pad_edge=False)
    for column in ("id", "role", "created", "expires", "note"):
        shown.add_column(column)
    for each in tokens:
        expires = "never" if each.expires_us is None else moment(each.expires_us)
        shown.add_row(each.id, each.role, moment(each.created_us), expires, each.note)
    return shown


VERBS = {"create": create, "list": list_tokens, "revoke": revoke}
