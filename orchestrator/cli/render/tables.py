"""Tables that cut nothing.

The library ends what is too long for its column with `…`, names of nodes and fragments too. Here it
goes on in the next line.
"""

from __future__ import annotations

from rich import table
from rich.console import Console, ConsoleOptions, RenderResult

MOST_WIDTH = 10_000
"""Wider than any table needs to be."""


class Table(table.Table):
    """A table of which all is shown, however narrow the terminal is."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for column in self.columns:
            column.overflow = "fold"
        if self._least_width(console, options) > options.max_width:
            # Otherwise columns that do not wrap would lose their ends.
            for column in self.columns:
                column.no_wrap = False
        yield from super().__rich_console__(console, options)

    def _least_width(self, console: Console, options: ConsoleOptions) -> int:
        """The width at which no word is broken."""
        found = [
            self._measure_column(console, options.update(max_width=MOST_WIDTH), column)
            for column in self.columns
        ]
        pairs = zip(self.columns, found, strict=True)
        widths = [one.maximum if column.no_wrap else one.minimum for column, one in pairs]
        return sum(widths) + self._extra_width
