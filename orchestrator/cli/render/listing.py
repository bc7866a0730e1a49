"""Records as rows: what a kind of thing is called, and what is shown of it.

Every verb that lists things shows them by these columns, so that a figure stands under the same
name in `vivace status`, `get`, `describe` and `top`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rich.text import Text

from orchestrator.cli.render.tables import Table

T = TypeVar("T")


def _always(_: Sequence[Any]) -> bool:
    return True


@dataclass(frozen=True, kw_only=True)
class ListedColumn(Generic[T]):
    """What is shown of a record under a title.

    Attributes
    ----------
    cell
        As a person reads it.
    order
        What rows are sorted by, None last; None: the column is of names, sorted as such.
    is_wide
        Whether it is shown only where more is asked for.
    when
        Whether it is shown, given the records.
    """

    title: str
    cell: Callable[[T], str | Text]
    order: Callable[[T], float | None] | None = None
    is_wide: bool = False
    when: Callable[[Sequence[T]], bool] = _always


@dataclass(frozen=True, kw_only=True)
class Kind(Generic[T]):
    """A kind of thing: the name of one, and its columns, the first of which has the name."""

    title: str
    name: Callable[[T], str]
    columns: tuple[ListedColumn[T], ...]

    def shown(self, records: Sequence[T], *, wide: bool) -> list[ListedColumn[T]]:
        """The columns that are shown."""
        return [each for each in self.columns if (wide or not each.is_wide) and each.when(records)]

    def table(self, records: Sequence[T], *, wide: bool = False, title: str | None = None) -> Table:
        """A row for each record. Where room is scarce, the first column is whole; others wrap."""
        columns = self.shown(records, wide=wide)
        made = Table(title=title, title_justify="left", title_style="bold", box=None)
        for each in columns:
            is_name = each.order is None
            made.add_column(
                each.title, justify="left" if is_name else "right", no_wrap=each is columns[0]
            )
        for record in records:
            made.add_row(*(each.cell(record) for each in columns))
        return made

    def facts(self, record: T) -> Table:
        """All columns of one record, one under the other."""
        made = Table(box=None, show_header=False, pad_edge=False)
        made.add_column(style="dim")
        made.add_column()
        for each in self.shown([record], wide=True):
            made.add_row(each.title.replace("\n", " "), each.cell(record))
        return made

    def sorted_by(self, records: Sequence[T], title: str) -> list[T]:
        """The records by a column: figures the greatest first, names from A to Z."""
        (column,) = (each for each in self.columns if each.title == title)
        if (order := column.order) is None:
            return sorted(records, key=lambda each: str(column.cell(each)))

        def key(record: T) -> tuple[bool, float]:
            value = order(record)
            return value is None, -(value or 0.0)

        return sorted(records, key=key)
