"""How busy nodes and machines are, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from orchestrator import api
from orchestrator.cli.render.tables import Table

CORES = "cores: measured / predicted / limit"
"""Title of the column of `cores`."""


def cores(load: api.PlaceLoad) -> Text:
    """What a place has taken, what it should take, and what it may."""
    measured = "–" if load.measured_cores is None else f"{load.measured_cores:.2f}"
    most = max(load.measured_cores or 0.0, load.predicted_cores) + load.services_cores
    style = "bold red" if most > load.limit_cores else ""
    return Text(f"{measured} / {load.predicted_cores:.2f} / {load.limit_cores:.2f}", style=style)


def machines_table(loads: Sequence[api.PlaceLoad]) -> Table:
    """Machines that several hosts share."""
    made = table(
        "\nMachines", ("machine",), ("hosts", "processors", "speed", CORES, "services", "takeover")
    )
    for load in loads:
        if load.is_machine:
            kept = (load.services_cores, load.takeover_cores)
            made.add_row(
                load.name,
                str(len(load.hosts)),
                f"{load.processors:g}",
                f"{load.speed:.2f}",
                cores(load),
                *(f"{each:.2f}" for each in kept),
            )
    return made


def loads_table(loads: Sequence[api.PlaceLoad]) -> Table:
    """All of them."""
    made = table("\nLoad", ("node or machine",), (CORES,))
    for load in loads:
        made.add_row(load.name, cores(load))
    return made


def table(title: str, names: Sequence[str], figures: Sequence[str]) -> Table:
    """A table with columns of names and, to the right, of figures.

    The first name is what the row is about: where room is scarce, others wrap, and it is whole.
    """
    made = Table(title=title, title_justify="left", title_style="bold", box=None)
    for name in names:
        made.add_column(name, no_wrap=name == names[0])
    for figure in figures:
        made.add_column(figure, justify="right")
    return made
