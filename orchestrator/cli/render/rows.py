"""Rows of a stream as lines of a table whose end nobody knows."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator import api
from orchestrator.cli.render.figures import event_time

_widths = {"int": 12, "float": 12, "string": 16, "bool": 5}


class RowPrinter:
    """Formats rows, with the names of the columns above the first.

    Parameters
    ----------
    columns
        Column → type.
    """

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = {name: max(len(name), _widths[kind]) for name, kind in columns.items()}
        self._headed = False

    def line(self, row: api.TailRow) -> str:
        """The line of a row."""
        head = ""
        if not self._headed:
            self._headed = True
            names = "  ".join(name.ljust(width) for name, width in self._columns.items())
            head = f"{'seq':>8}  {'time':<23}  {names}".rstrip() + "\n"
        cells = "  ".join(
            _text(row.values.get(name)).ljust(width) for name, width in self._columns.items()
        )
        return f"{head}{row.seq:>8}  {event_time(row.timestamp_ms):<23}  {cells}".rstrip()


def _text(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    # A terminal would obey control characters, and a line end would be a row's.
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value)
    )
