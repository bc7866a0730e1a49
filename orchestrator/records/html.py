"""Records as tables of a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from html import escape
from typing import Any, cast

import msgspec

MOST_ROWS = 200
"""Of a table; the record has all of them."""


def html(value: object) -> str:
    """A value as HTML: fields under each other, several records of a type as rows of a table.

    >>> html({"a": 1.0, "b": "<x>"})
    '<table><tr><th>a</th><td>1</td></tr><tr><th>b</th><td>&lt;x&gt;</td></tr></table>'
    """
    if isinstance(value, msgspec.Struct):
        return _fields(_shown(value))
    if isinstance(value, dict):
        return _fields({str(name): each for name, each in cast(dict[Any, Any], value).items()})
    if isinstance(value, (list, tuple)):
        return _several(cast(Sequence[Any], value))
    if isinstance(value, Enum):
        return escape(str(value.value))
    if isinstance(value, float):
        return f"{value:,.6g}"
    return "–" if value is None else escape(str(value))


def _shown(record: msgspec.Struct) -> dict[str, object]:
    """The fields of a record that have something to show."""
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    return {name: each for name, each in fields.items() if each not in ((), {}, None)}


def _fields(fields: Mapping[str, object]) -> str:
    rows = [(escape(name), html(each)) for name, each in fields.items()]
    lines = "".join(f"<tr><th>{name}</th><td>{shown}</td></tr>" for name, shown in rows)
    return f"<table>{lines}</table>"


def _several(values: Sequence[Any]) -> str:
    records = [each for each in values if isinstance(each, msgspec.Struct)]
    if not records or len(records) < len(values):
        return ", ".join(map(html, values)) or "–"
    rows = [_shown(each) for each in records[:MOST_ROWS]]
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["".join(f"<th>{escape(name)}</th>" for name in names)]
    lines += ["".join(f"<td>{html(row.get(name))}</td>" for name in names) for row in rows]
    more = len(records) - MOST_ROWS
    rest = f"<p>… and {more:,} more</p>" if more > 0 else ""
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>{rest}"
