"""Fields of manifests that say how input writes rows: timestamps, NULL, paths of fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import yaml

from orchestrator.documents.document import Field, Options
from orchestrator.edges.sources.formats.row_form import (
    ARRIVAL,
    ISO,
    UNITS,
    FieldPath,
    RowForm,
    Unknown,
)
from orchestrator.edges.sources.formats.time_patterns import for_python
from streams.vectors.chunk import TIMESTAMP

MOST_STEPS = 16
"""Of a path: deeper than people nest fields."""


@runtime_checkable
class WithForm(Protocol):
    """A source that reads rows, and how they are written."""

    @property
    def time_column(self) -> str | None:
        """The column or field with the timestamp; None: it is the arrival."""
        ...

    @property
    def time_path(self) -> FieldPath:
        """Where that field is, unless it is named as the column."""
        ...

    @property
    def time_format(self) -> str:
        """How it is written."""
        ...

    @property
    def nulls(self) -> tuple[str, ...]:
        """What stands for NULL in CSV."""
        ...

    @property
    def unknown(self) -> Unknown:
        """What becomes of fields that the stream does not have."""
        ...


def row_form(
    source: WithForm, columns: Mapping[str, str], fields: Mapping[str, FieldPath] | None = None
) -> RowForm:
    """The rows that a stream takes from a source.

    Parameters
    ----------
    columns
        Column → type.
    fields
        Column → path of the field that it comes from, unless that is named as the column.
    """
    paths = dict(fields or {})
    time = source.time_column
    if time is not None and source.time_path and time not in columns:
        paths[time] = source.time_path
    return RowForm(
        columns=columns,
        time_column=time,
        time_format=source.time_format,
        fields=paths,
        nulls=source.nulls,
        unknown=source.unknown,
    )


def read_path(field: Field) -> FieldPath:
    """The path of a field: `user.id` is `id` within `user`; a list has names with dots in them."""
    if isinstance(field.node, yaml.SequenceNode):
        steps = tuple(item.text() for item in field.items())
        if not steps:
            field.refuse_list("names no field", "Name the fields from the outermost on.")
    else:
        steps = tuple(field.text().split("."))
        if not all(steps):
            field.refuse(
                "has a dot without a name beside it",
                "Write names with dots between them; where a dot is part of a name, write a list: "
                '["user.id"].',
            )
    if len(steps) > MOST_STEPS:
        field.refuse(f"has more than {MOST_STEPS} names", "Write a shorter path.")
    return steps


def read_timestamp(field: Field) -> dict[str, Any]:
    """The field `timestamp`: a column or field and its format, or the arrival."""
    if not field.is_mapping():
        field.choice([ARRIVAL])
        return {}
    with field.section() as section:
        column = section.need("column")
        path = read_path(column)
        name = ".".join(path)
        if name == TIMESTAMP:
            column.refuse("is the name of the stream's own timestamp", "Rename the column.")
        given = section.given({"time_format": ("format", _time_format)})
        nested = {} if path == (name,) else {"time_path": path}
        return {"time_column": name, **nested, **given}


TIME_FORMATS = f"Write one of {', '.join(UNITS)}, {ISO}, or a pattern such as '%d.%m.%Y %H:%M:%S'."
"""What to do about a text that is none."""


def time_format_problem(text: str) -> str | None:
    """Why a text is no format of timestamps; None: it is one."""
    if text in (*UNITS, ISO):
        return None
    if "%" not in text:
        return "is no format of a timestamp"
    try:
        for_python(text)
    except ValueError as error:
        return str(error)
    return None


def _time_format(field: Field) -> str:
    text = field.text()
    if (problem := time_format_problem(text)) is not None:
        field.refuse(problem, TIME_FORMATS)
    return text


def _nulls(field: Field) -> tuple[str, ...]:
    for item in field.items():
        if not isinstance(item.node, yaml.ScalarNode):
            item.refuse("is not text", 'Write what stands for NULL: ["", NULL].')
    # As they are written: YAML takes NULL for null.
    return tuple(str(item.node.value) for item in field.items())


form_options: Options = {
    "nulls": ("nulls", _nulls),
    "unknown": ("unknown", lambda field: Unknown(field.choice([u.value for u in Unknown]))),
}
"""Those that all sources of rows share."""
