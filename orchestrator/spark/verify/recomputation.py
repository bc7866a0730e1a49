"""Queries computed again from the whole of their input, and compared with what was delivered.

Each statement is computed in Spark SQL (`orchestrator.spark.verify.translation`). What SQL cannot
express is evaluated once more by the engine (`orchestrator.spark.verify.evaluation`): in parts
where tuples can be told apart, else in one piece. Whoever wants none of its operators writes the
SQL of an output by hand (`orchestrator.spark.verify.verification`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions

from orchestrator.spark.verify.evaluation import ORDER, evaluate_parts, evaluate_whole, widest
from orchestrator.spark.verify.sql_expressions import Inexpressible, spark_name
from orchestrator.spark.verify.sql_windows import view_name
from orchestrator.spark.verify.translation import Catalogue, keeps_order, translate
from orchestrator.spark.verify.verification import PARTS_PER_CORE
from orchestrator.spark.verify.watching import OnRows, watched
from streams.language import parse
from streams.language.ast import Statement
from streams.plan.compiler import compile_statement
from streams.plan.partitioning import Interacting, Partitioning, partitionings
from streams.plan.program import Program
from streams.vectors.chunk import TIMESTAMP

LEAST_PART_ROWS = 25_000
"""Tuples of all inputs in each part of a statement: a part costs the start of its task."""

LEAST_PARTS = 2

OnStatement = Callable[[str, int, int], None]
"""Told of a statement how many of its input's rows are done, and how many there are."""


class Unordered(Exception):
    """A statement depends on an order within a timestamp that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedStatement:
    """A statement that was evaluated by the engine.

    Attributes
    ----------
    why
        It was not computed in Spark SQL.
    by
        The columns that divided its input into parts; empty: it was evaluated in one piece.
    whole
        Why in one piece; None: it was not.
    """

    why: str
    by: tuple[str, ...]
    whole: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """Streams computed again.

    Attributes
    ----------
    session
        Where they are.
    frames
        Stream → rows, `_ts` first.
    not_in_sql
        The statements that were not computed in Spark SQL.
    """

    session: SparkSession
    frames: Mapping[str, DataFrame]
    not_in_sql: Mapping[str, EvaluatedStatement]


def recompute(
    session: SparkSession,
    statements: Sequence[str],
    columns: Mapping[str, Mapping[str, str]],
    inputs: Mapping[str, pa.Table],
    until_ms: int,
    on_rows: OnStatement = lambda statement, done, of: None,
    least_part_rows: int = LEAST_PART_ROWS,
) -> Recomputed:
    """Compute statements from their input, up to a timestamp.

    Parameters
    ----------
    session
        Any session; the views of the streams are made in a new one beside it.
    statements
        Producers before consumers.
    columns
        Of the inputs.
    inputs
        Stream → its tuples in order, with `stream_schema`'s columns.
    until_ms
        The last timestamp of interest; every input is complete up to it.
    on_rows
        Told how far each statement is.
    least_part_rows
        So many tuples at least are in each part, on average.

    Raises
    ------
    Unordered
        Neither way gives certain rows.
    """
    session = session.newSession()
    # Overflow and division by zero are no errors.
    session.conf.set("spark.sql.ansi.enabled", "false")
    # Names of the query language differ by case, too.
    session.conf.set("spark.sql.caseSensitive", "true")
    parts = PARTS_PER_CORE * session.sparkContext.defaultParallelism
    session.conf.set("spark.sql.shuffle.partitions", parts)
    compiled = _compiled(statements, columns)
    known = {name: dict(own) for name, own in columns.items()}
    known |= {program.name: dict(program.columns) for _, program in compiled}
    recomputation = _Recomputation(
        session=session,
        known=known,
        ordered=set(inputs),
        needed=_order_needed([program for _, program in compiled]),
        frames={},
        until_ms=until_ms,
        most_parts=parts,
        least_part_rows=least_part_rows,
    )
    for stream, table in inputs.items():
        recomputation.publish(stream, numbered(session, table))
        recomputation.rows[stream] = table.num_rows
    not_in_sql: dict[str, EvaluatedStatement] = {}
    for number, (statement, program) in enumerate(compiled, 1):
        name = f"{statement.name}, statement {number} of {len(compiled)}"
        recomputation.on_rows = partial(on_rows, name)
        why = recomputation.in_sql(statement, program)
        if why is not None:
            not_in_sql[statement.name] = recomputation.by_engine(program, why)
    return Recomputed(
        session=session,
        frames={
            name: frame.drop(ORDER).toDF(TIMESTAMP, *known[name])
            for name, frame in recomputation.frames.items()
        },
        not_in_sql=not_in_sql,
    )


class _TooFew(Exception):
    """Too few tuples for two parts."""


@dataclass(slots=True, kw_only=True)
class _Recomputation:
    """What has been computed so far.

    Attributes
    ----------
    known
        Stream → its columns.
    ordered
        Streams whose order within a timestamp is known.
    needed
        Streams on whose order something depends.
    rows
        Stream → how many it has.
    on_rows
        Told how far the present statement is.
    """

    session: SparkSession
    known: Mapping[str, Mapping[str, str]]
    ordered: set[str]
    needed: frozenset[str]
    frames: dict[str, DataFrame]
    until_ms: int
    most_parts: int
    least_part_rows: int
    rows: dict[str, int] = field(default_factory=dict[str, int])
    on_rows: OnRows = lambda done, of: None

    def publish(self, stream: str, frame: DataFrame) -> None:
        """Make a stream known to the statements that read it."""
        # Each is read by several others, and twice by ISTREAM.
        frame = frame.cache()
        frame.createOrReplaceTempView(view_name(stream))
        self.frames[stream] = frame

    def _input_rows(self, program: Program) -> int:
        return sum(self.rows[stream] for stream in program.inputs)

    def in_sql(self, statement: Statement, program: Program) -> str | None:
        """Compute a statement in Spark SQL, or say why that cannot be done."""
        catalogue = Catalogue(
            columns=self.known, ordered=frozenset(self.ordered), until_ms=self.until_ms
        )
        try:
            made = self.session.sql(translate(statement, program.columns, catalogue))
        except Inexpressible as error:
            return str(error)
        if keeps_order(statement, catalogue):
            self.ordered.add(program.name)
        self.publish(program.name, made)
        with watched(self.session.sparkContext, self._input_rows(program), self.on_rows):
            self.rows[program.name] = self.frames[program.name].count()
        return None

    def by_engine(self, program: Program, why: str) -> EvaluatedStatement:
        """Evaluate a statement by the engine: in parts, if that gives the same."""
        for stream in sorted(_order_read(program) - self.ordered):
            raise Unordered(
                f"{program.name} counts the rows of {stream}, or shows the first or last of them, "
                "whose order within a timestamp is not known"
            )
        try:
            by, parts = self._partitioning(program)
        except (Interacting, _TooFew) as error:
            rows = evaluate_whole(program, self.frames, self.until_ms, self.on_rows)
            self.publish(program.name, numbered(self.session, rows))
            self.rows[program.name] = rows.num_rows
            self._keeps_order(program)
            return EvaluatedStatement(why=why, by=(), whole=str(error))
        rows = self._input_rows(program)
        made = evaluate_parts(program, self.frames, by, self.until_ms, parts, rows, self.on_rows)
        self.publish(program.name, made)
        self.rows[program.name] = made.count()
        if program.stateless:
            self._keeps_order(program)
        return EvaluatedStatement(why=why, by=tuple(dict.fromkeys(by.values())), whole=None)

    def _partitioning(self, program: Program) -> tuple[Partitioning, int]:
        """By which columns, and into how many parts."""
        if not program.stateless and program.name in self.needed:
            raise Interacting("another statement depends on the order of its rows")
        choices = [] if program.stateless else partitionings(program)
        rows = self._input_rows(program)
        parts = min(rows // self.least_part_rows, self.most_parts)
        if parts < LEAST_PARTS:
            raise _TooFew(f"its input has {rows:,} tuples, too few for parts")
        if program.stateless:
            return dict.fromkeys(program.inputs, TIMESTAMP), parts
        return widest(self.frames, choices), parts

    def _keeps_order(self, program: Program) -> None:
        if self.ordered.issuperset(program.inputs):
            self.ordered.add(program.name)


def _compiled(
    statements: Sequence[str], columns: Mapping[str, Mapping[str, str]]
) -> list[tuple[Statement, Program]]:
    known = {name: dict(own) for name, own in columns.items()}
    compiled: list[tuple[Statement, Program]] = []
    for text in statements:
        (statement,) = parse(text)
        program = compile_statement(statement, known)
        known[program.name] = dict(program.columns)
        compiled.append((statement, program))
    return compiled


def _order_read(program: Program) -> set[str]:
    """The inputs of which the order within a timestamp shows in what rows there are."""
    counted = {window.stream for window in program.windows if window.rows is not None}
    for select in program.all_selects:
        aggregates = () if select.group is None else select.group.aggregates
        if any(each.function in ("first", "last") for each in aggregates):
            counted |= set(program.inputs)
    return counted


def _order_needed(programs: Sequence[Program]) -> frozenset[str]:
    """The streams on whose order within a timestamp some statement's rows depend."""
    needed: set[str] = set()
    for program in reversed(programs):
        needed |= _order_read(program)
        # The order of its rows comes from that of its inputs.
        needed |= set(program.inputs) if program.name in needed else set()
    return frozenset(needed)


def numbered(session: SparkSession, table: pa.Table) -> DataFrame:
    """Tuples with their places, in one chunk: Spark takes an empty one for the table's end."""
    places = pa.array(np.arange(table.num_rows))
    named = table.rename_columns([spark_name(name) for name in table.column_names])
    numbered = session.createDataFrame(named.append_column(ORDER, places).combine_chunks())
    return numbered.withColumn(ORDER, functions.array(ORDER))
