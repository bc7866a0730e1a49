"""What a client of results wants of them: up to a place, a range of time, columns, conditions.

    until=7-100                    tuples before that place (generation-sequence number)
    first=…&last=…                 timestamps from and up to, both included, ms
    columns=_seq,celsius           these columns, in this order
    where=[["celsius",">=",30.0]]  conditions that all hold: =, <, <=, >, >=, in, null, notnull

A response with an end, by place or by time, ends there. A condition on an empty value does not
hold. NaN counts as greater than all numbers, as in Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from streams.vectors.chunk import TIMESTAMP

Place = tuple[int, int]
"""Generation and sequence number: the place just before a tuple."""

PARAMETERS = ("until", "first", "last", "columns", "where")
"""Of an address, that choose results."""

Operator = Literal["=", "<", "<=", ">", ">=", "in", "null", "notnull"]
Value = int | float | str | bool | None
Conditions = Annotated[
    list[tuple[str, Operator, Value | list[Value]]], msgspec.Meta(max_length=1000)
]

_conditions = msgspec.json.Decoder(Conditions)
_compare = {
    "=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_identity = re.compile(r"([0-9]{1,16})-([0-9]{1,16})")
_number = re.compile(r"-?[0-9]{1,16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSelection:
    """The results that a client wants.

    Attributes
    ----------
    schema
        Of what it gets.
    until
        Tuples from this place on are not wanted; None: all are.
    first_ms, last_ms
        Timestamps, both included; None: any.
    where
        Conditions.
    """

    schema: pa.Schema
    until: Place | None = None
    first_ms: int | None = None
    last_ms: int | None = None
    where: Conditions

    @staticmethod
    def read(query: Mapping[str, str], schema: pa.Schema) -> ResultSelection:
        """A selection out of the parameters of an address.

        Parameters
        ----------
        schema
            The stream's, with generation and sequence number.

        Raises
        ------
        ValueError
            Saying what is wrong with them.
        """
        if wanted := query.get("columns"):
            names = wanted.split(",")
            _known(names, schema)
            chosen = pa.schema([schema.field(name) for name in names])
        else:
            chosen = schema
        made = ResultSelection(
            schema=chosen,
            until=place(query["until"]) if "until" in query else None,
            first_ms=_whole(query, "first"),
            last_ms=_whole(query, "last"),
            where=_conditions.decode(query.get("where", "[]")),
        )
        _known([name for name, _, _ in made.where], schema)
        for name, operator, value in made.where:
            if isinstance(value, list) != (operator == "in"):
                wanted = "a list" if operator == "in" else "one value"
                raise ValueError(f"condition on {name}: {operator!r} takes {wanted}")
        # Values of another type than their column's are refused here, not within a response.
        made.of(pa.RecordBatch.from_pylist([], schema=schema))
        return made

    @property
    def is_bounded(self) -> bool:
        """Whether its results end."""
        return self.until is not None or self.last_ms is not None

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The part of a batch that is wanted.

        Raises
        ------
        ValueError
            A condition does not fit its column.
        """
        conditions = list(self.where)
        if self.first_ms is not None:
            conditions.append((TIMESTAMP, ">=", self.first_ms))
        if self.last_ms is not None:
            conditions.append((TIMESTAMP, "<=", self.last_ms))
        for name, operator, value in conditions:
            try:
                batch = batch.filter(_holds(batch.column(name), operator, value))
            except (pa.ArrowException, OverflowError, TypeError) as error:
                raise ValueError(f"condition on {name}: {error}") from None
        columns = [batch.column(name) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def is_past(self, batch: pa.RecordBatch) -> bool:
        """Whether nothing that follows a batch is wanted: timestamps rise."""
        if self.last_ms is None or not batch.num_rows:
            return False
        return batch.column(TIMESTAMP)[batch.num_rows - 1].as_py() > self.last_ms


def place(text: str) -> Place:
    """A place as clients write it.

    Raises
    ------
    ValueError
        It is none.
    """
    if (found := _identity.fullmatch(text.strip())) is None:
        raise ValueError(f"{text[:100]!r} is no identity of a tuple; write GENERATION-SEQUENCE")
    return int(found[1]), int(found[2])


def _holds(column: pa.Array, operator: Operator, value: Any) -> pa.Array:
    if operator == "null":
        return column.is_null()
    if operator == "notnull":
        return column.is_valid()
    if operator == "in":
        values = pa.array([each for each in value if each is not None], type=column.type)
        return pc.fill_null(pc.is_in(column, value_set=values), False)
    holds = pc.fill_null(_compare[operator](column, pa.scalar(value, column.type)), False)
    if operator in (">", ">=") and pa.types.is_floating(column.type):
        holds = pc.or_(holds, pc.fill_null(pc.is_nan(column), False))
    return holds


def _known(names: list[str], schema: pa.Schema) -> None:
    if unknown := [name for name in names if name not in schema.names]:
        raise ValueError(
            f"there is no column {unknown[0][:100]!r}; write {', '.join(schema.names)}"
        )


def _whole(query: Mapping[str, str], name: str) -> int | None:
    if (text := query.get(name)) is None:
        return None
    if not _number.fullmatch(text):
        raise ValueError(f"`{name}` is a timestamp in ms, no {text[:100]!r}")
    return int(text)
