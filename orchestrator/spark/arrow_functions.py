"""Python functions on Arrow data in Spark, on machines without pandas.

PySpark 4.3 creates `mapInArrow` and `applyInArrow` through its pandas functions, which first check
that pandas is installed. Their input and output are Arrow data, and neither driver nor executors
use pandas. The check is therefore skipped while such a function is created.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas import functions as pandas_functions

ArrowMap = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Turns a partition's batches into those of the result."""

ArrowGroup = Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]
"""Turns a group's key and rows into rows of the result."""

_check = "require_minimum_pandas_version"

_one_at_a_time = threading.Lock()


def map_in_arrow(frame: DataFrame, function: ArrowMap, schema: str) -> DataFrame:
    """`DataFrame.mapInArrow`: a function of each partition."""
    with _without_check():
        return frame.mapInArrow(function, schema)


def apply_in_arrow(frame: DataFrame, by: str, function: ArrowGroup, schema: str) -> DataFrame:
    """`GroupedData.applyInArrow`: a function of each group of rows with one value in `by`."""

    def group(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        # Spark inspects the parameters of a function; those of a callable object are hidden.
        return function(key, table)

    with _without_check():
        return frame.groupBy(by).applyInArrow(group, schema)


@contextmanager
def _without_check() -> Generator[None]:
    """Skip PySpark's check for pandas while a function is created."""
    with _one_at_a_time:
        check = vars(pandas_functions)[_check]
        setattr(pandas_functions, _check, lambda: None)
        try:
            yield
        finally:
            setattr(pandas_functions, _check, check)
