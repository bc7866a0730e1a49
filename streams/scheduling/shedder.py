"""The load shedder: admits the most valuable tuples of a stream, up to a limit per interval.

Deadlines are planned for a certain volume. A stream that may exceed it gets a *load shedder*
(Yamaguchi et al., deadline placement, §5.1): the greatest number of tuples to admit per unit of
time, and an expression for the value of a tuple. Beyond the limit, the least valuable tuples are
dropped as they enter. Shed tuples are never numbered, so consumers see no gap, and both replicas of
every fragment see the same stream.

Intervals begin at the multiples of their length. If a batch exceeds the rest of its interval's
limit, its least valuable tuples are dropped, the later ones of equals first; the others keep their
order. Admitted tuples stay admitted, because they may have been processed already. A valuable tuple
may therefore be dropped because cheaper ones came earlier in its interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from foundation.arrays import FloatArray
from streams.expressions.typed import evaluator
from streams.language import QueryError, parse
from streams.language.ast import Statement
from streams.language.walk import is_flat
from streams.plan.compiler import compile_statement
from streams.vectors.chunk import TIMESTAMP, type_names
from streams.vectors.vector import from_arrow

Value = Callable[[pa.RecordBatch | pa.Table], FloatArray]
"""Rows → the value of each, shape (n,); NaN is less than any number."""

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

STREAM = "stream"
"""The name of the valued stream within value expressions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedBatch(Generic[Rows]):
    """The result of admitting a batch.

    Attributes
    ----------
    kept
        The rows that are admitted, in their order.
    dropped
        Number of rows that are not.
    """

    kept: Rows
    dropped: int


class Shedder:
    """The load shedder of one stream.

    Parameters
    ----------
    limit
        Tuples to admit per interval, ≥ 0.
    per_us
        Length of an interval, µs, ≥ 1.
    value
        The value of tuples; None: the earlier ones are kept.

    Raises
    ------
    ValueError
        A negative limit, or an interval shorter than 1 µs.
    """

    def __init__(self, limit: int, per_us: int, value: Value | None = None) -> None:
        if limit < 0:
            raise ValueError(f"cannot admit {limit} tuples; give 0 or more")
        if per_us < 1:
            raise ValueError(f"cannot shed per {per_us} µs; give 1 or more")
        self._limit = limit
        self._per_us = per_us
        self._value = value
        self._interval: int | None = None
        self._left = limit

    def admit(self, rows: Rows, at_us: int) -> AdmittedBatch[Rows]:
        """Admit as many rows as the interval's limit allows.

        Parameters
        ----------
        rows
            A batch of the stream.
        at_us
            When it enters, µs on the cluster's clock. A time earlier than that of a previous call
            counts to the previous call's interval, so that no interval is filled twice.
        """
        interval = at_us // self._per_us
        if self._interval is None or interval > self._interval:
            self._interval, self._left = interval, self._limit
        room = self._left
        excess = rows.num_rows - room
        if excess <= 0:
            self._left -= rows.num_rows
            return AdmittedBatch(kept=rows, dropped=0)
        self._left = 0
        if room == 0 or self._value is None:
            return AdmittedBatch(kept=rows.slice(0, room), dropped=excess)
        # Stable, so that of equals the earlier come first; NaN comes last.
        by_value = np.argsort(-self._value(rows), kind="stable")
        return AdmittedBatch(kept=rows.take(np.sort(by_value[:room])), dropped=excess)


def value_of(text: str, schema: pa.Schema) -> Value:
    """Compile a value expression.

    Parameters
    ----------
    text
        An expression of the query language over a tuple's columns. A condition is worth 1 where
        it is true and 0 where it is false; NULL is worth nothing.
    schema
        The stream's (`streams.vectors.chunk.stream_schema`).

    Raises
    ------
    QueryError
        The text is no such expression, names an unknown column or function, or has a type that
        is no value. The error carries the place in `text`.

    Examples
    --------
    >>> from streams.vectors.chunk import stream_schema
    >>> schema = stream_schema({"speed": "float"})
    >>> rows = pa.RecordBatch.from_pylist([{"_ts": 0, "speed": -2.5}], schema=schema)
    >>> value_of("abs(speed)", schema)(rows).tolist()
    [2.5]
    """
    names = {kind: name for name, kind in type_names.items()}
    columns = {one.name: names[one.type] for one in schema if one.name != TIMESTAMP}
    statement = _as_statement(text)
    try:
        program = compile_statement(statement, {STREAM: columns})
    except QueryError as error:
        raise _moved(error, text) from None
    (select,) = program.selects
    if select.group is not None:
        raise QueryError(text, 0, "an aggregate has no value for a single tuple")
    (value,) = select.outputs
    if value.kind == "string":
        raise QueryError(text, 0, "a value is a number or a condition, this is of type string")
    reads = tuple(zip(program.reads[STREAM], program.read_kinds(STREAM), strict=True))
    evaluate = evaluator(value)

    def valued(rows: pa.RecordBatch | pa.Table) -> FloatArray:
        values, valid = evaluate(tuple(from_arrow(_column(rows, name), k) for name, k in reads))
        worth = np.asarray(values, dtype=np.float64)
        if valid is not None:
            worth = np.where(valid, worth, np.nan)
        return np.broadcast_to(worth, (rows.num_rows,))

    return valued


def _column(rows: pa.RecordBatch | pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


_LINES_BEFORE = 1
"""Lines of the wrapping statement before the expression."""


def _as_statement(text: str) -> Statement:
    """The statement that selects the expression and nothing else."""
    wrapped = f"REGISTER QUERY value RSTREAM(SELECT\n{text}\nAS value FROM {STREAM} [NOW]);"
    try:
        statements = parse(wrapped)
    except QueryError as error:
        raise _moved(error, text) from None
    selects = [select for statement in statements for select in statement.body.selects]
    # A text with commas or whole clauses in it may fit into the statement by accident.
    if not all(map(is_flat, statements)):
        raise QueryError(text, 0, "a value of a tuple has no sub-queries")
    if len(selects) != 1 or len(selects[0].items) != 1 or selects[0].where or selects[0].group_by:
        raise QueryError(text, 0, "this is more than one expression; write one, such as a * 2 + b")
    return statements[0]


def _moved(error: QueryError, text: str) -> QueryError:
    """An error in the statement as one in the expression."""
    lines = text.split("\n")
    line = error.line - _LINES_BEFORE
    if line < 1:
        return QueryError(text, 0, error.message)
    if line > len(lines):
        message = "this is not one whole expression; write one, such as a * 2 + b"
        return QueryError(text, len(text.rstrip()), message)
    offset = sum(len(one) + 1 for one in lines[: line - 1]) + error.column - 1
    # The expected keywords (AS, FROM) belong to the wrapping statement, not to the expression.
    return QueryError(text, offset, error.message.split("; expected ")[0])
