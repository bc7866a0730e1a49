"""`vivace top`: the things of a kind, sorted, once a second."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any

from rich.console import Group, RenderableType
from rich.text import Text

from orchestrator import api
from orchestrator.cli.arguments import Argument, Option
from orchestrator.cli.invocation import (
    ClusterOption,
    ListForm,
    ListFormOption,
    connected,
    output,
    show,
)
from orchestrator.cli.render.kinds import KINDS
from orchestrator.cli.render.status import concerns
from orchestrator.operations.parameters import Parameters

EVERY_S = 1.0

SORTED_BY = " ▾"
"""Behind the title of the column that rows are sorted by."""

KEYS = "Tab kind  < > column  i invert  space pause  q quit"

LEFT, RIGHT = ("<", ",", "\x1b[D"), (">", ".", "\x1b[C")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What is shown, and in which order."""

    kind: str
    column: str
    is_inverted: bool = False
    is_paused: bool = False
    has_ended: bool = False

    def after(self, key: str) -> Shown:
        """The same after a key; keys are those of htop."""
        titles = [each.title for each in KINDS[self.kind].kind.columns]
        place = titles.index(self.column)
        kinds = [*KINDS]
        following = kinds[(kinds.index(self.kind) + 1) % len(kinds)]
        effects: Mapping[str, Shown] = {
            "q": replace(self, has_ended=True),
            "\x1b[21~": replace(self, has_ended=True),
            "\x03": replace(self, has_ended=True),
            "i": replace(self, is_inverted=not self.is_inverted),
            "I": replace(self, is_inverted=not self.is_inverted),
            " ": replace(self, is_paused=not self.is_paused),
            "\t": replace(self, kind=following, column=KINDS[following].first),
            **{key: replace(self, column=titles[place - 1]) for key in LEFT},
            **{key: replace(self, column=titles[(place + 1) % len(titles)]) for key in RIGHT},
        }
        return effects.get(key, self)


def command(
    kind: Annotated[
        str, Argument(help=f"{', '.join(KINDS)}. Default: fragments.", values=tuple(KINDS))
    ] = "fragments",
    sort: Annotated[
        str | None, Option("--sort", help="Title of the column that rows are sorted by.")
    ] = None,
    once: Annotated[bool, Option("--once", help="Show it once, for scripts.")] = False,
    cluster: ClusterOption = None,
    form: ListFormOption = ListForm.TABLE,
) -> None:
    """Show the things of a kind once a second, the busiest first.

    Keys are as in htop: < and > choose the column, i inverts, Tab shows the next kind, space holds,
    q or F10 ends. Where there is no terminal, and in any form but a table, it is shown once.

    [bold]Example:[/] vivace top nodes --sort load
    """
    shown = Shown(kind=kind, column=_column(kind, sort))
    with connected(cluster) as client:
        if once or form is not ListForm.TABLE or not output().is_terminal:
            found = _sorted(client.call(KINDS[kind].operation, Parameters()), shown)
            listed = KINDS[kind].kind
            show(
                found,
                form,
                lambda: listed.table(found, wide=True),
                lambda: map(listed.name, found),
            )
            return
        # It reads keys, which not every system can.
        from orchestrator.cli.live import live

        def frame(now: Shown) -> RenderableType:
            found = _sorted(client.call(KINDS[now.kind].operation, Parameters()), now)
            return _frame(client.status(), found, now)

        with suppress(KeyboardInterrupt):
            # The usual way to end it.
            live(shown, frame, Shown.after, EVERY_S)


def _column(kind: str, sort: str | None) -> str:
    titles = {each.title.replace("\n", " "): each.title for each in KINDS[kind].kind.columns}
    if sort is None:
        return KINDS[kind].first
    if sort not in titles:
        remedy = f"Name one of: {', '.join(titles)}."
        raise api.InvalidInput("command line", "--sort", sort, "is no column of that kind", remedy)
    return titles[sort]


def _sorted(listed: Any, shown: Shown) -> list[Any]:
    kind = KINDS[shown.kind]
    found = kind.kind.sorted_by(kind.things(listed), shown.column)
    return found[::-1] if shown.is_inverted else found


def _frame(document: api.StatusDocument, found: list[Any], shown: Shown) -> RenderableType:
    """The rows under a line on the cluster, with the column marked that they are sorted by."""
    head = Text.assemble("Cluster ", (document.cluster, "bold"))
    head.append(f": {len(document.nodes)} hosts, {len(document.fragments)} fragments")
    worst = concerns(document)[:1]
    head.append(f"; ! {worst[0]}" if worst else "; ✓", "bold red" if worst else "green")
    rows = KINDS[shown.kind].kind.table(found, wide=True)
    for column in rows.columns:
        if column.header == shown.column:
            column.header = f"{shown.column}{SORTED_BY}"
    foot = Text(f"{KEYS}   {shown.kind}{' (held)' if shown.is_paused else ''}", "dim")
    return Group(head, rows, foot)
