"""Python functions on Arrow data in Spark, on machines without pandas.

PySpark 4.3 makes `mapInArrow` and `applyInArrow` by way of its pandas functions, which ask for an
installed pandas first. Arrow goes in and Arrow comes out; neither driver nor executors ever touch
it. A dependency for the sake of a question is not worth having, so the question is left out while
such a function is made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas import functions as pandas_functions

ArrowMap = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""From a partition's batches to those of the result."""

ArrowGroup = Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]
"""From a group's key and rows to those of the result."""

_question = "require_minimum_pandas_version"

_one_at_a_time = threading.Lock()


def map_in_arrow(frame: DataFrame, function: ArrowMap, schema: str) -> DataFrame:
    """`DataFrame.mapInArrow`: a function of each partition."""
    with _no_question():
        return frame.mapInArrow(function, schema)


def apply_in_arrow(frame: DataFrame, by: str, function: ArrowGroup, schema: str) -> DataFrame:
    """`GroupedData.applyInArrow`: a function of each group of rows with one value in `by`."""

    def group(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        # Spark looks at the parameters of a function, which objects that can be called hide.
        return function(key, table)

    with _no_question():
        return frame.groupBy(by).applyInArrow(group, schema)


@contextmanager
def _no_question() -> Generator[None]:
    """Leave out the look for pandas while a function is made."""
    with _one_at_a_time:
        question = vars(pandas_functions)[_question]
        setattr(pandas_functions, _question, lambda: None)
        try:
            yield
        finally:
            setattr(pandas_functions, _question, question)
