"""Tables cut nothing, however narrow the terminal is."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table as AnyTable

from orchestrator.cli.render.loads import table
from orchestrator.cli.render.tables import Table

names = st.text("abcdefghij-_.", min_size=1, max_size=60)


def shown(made: AnyTable, width: int) -> str:
    console = Console(width=width, no_color=True)
    with console.capture() as captured:
        console.print(made)
    return captured.get()


@given(
    rows=st.lists(st.tuples(names, names, names), min_size=1, max_size=4),
    width=st.integers(20, 140),
)
def test_every_letter_of_every_name_is_shown(rows: list[tuple[str, str, str]], width: int) -> None:
    made = table("Places", ("what", "where"), ("how",))
    for row in rows:
        made.add_row(*row)
    text = shown(made, width)
    assert "…" not in text
    written = "".join(name for row in rows for name in row)
    headers = "Placeswhatwherehow"
    assert sorted(re.sub(r"\s", "", text)) == sorted(written + headers)


def test_a_name_is_whole_where_others_can_wrap() -> None:
    made = table("Places", ("what", "why"), ())
    made.add_row("proximity.alerts_per_minute", "because it is near to " + "whatever " * 5)
    assert "proximity.alerts_per_minute" in shown(made, 45)


def test_a_grid_cuts_nothing_either() -> None:
    made = Table.grid(padding=(0, 1))
    made.add_row("+", "stream", "a" * 70, "new")
    assert shown(made, 40).count("a") - 1 == 70
