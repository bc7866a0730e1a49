"""A site's results as partitions that Spark's tasks read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from vivace.spark.options import Options

PARTITION_ROWS = 100_000
"""Rows of results from which on a further partition pays off."""

MOST_PARTITIONS = 8

Place = tuple[int, int]
"""Generation and sequence number of the next tuple."""

_comparisons: dict[type[Filter], str] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


class Span(InputPartition):
    """Results from one place up to another."""

    def __init__(self, begin: Place, until: Place) -> None:
        super().__init__((begin, until))
        self.begin, self.until = begin, until


class _Results:
    """What both readers know.

    Parameters
    ----------
    options
        Where the results are.
    schema
        The columns that are asked for: all, or those that the user's schema names.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        # One for all: it knows which results it has found, and waits for them if the site restarts.
        self._site = options.site
        self.schema = schema

    def ends(self) -> list[Place]:
        """The end of each generation in the site's archive, in order: no restart takes it back."""
        described = self._site.describe(self.options.stream)
        return [(generation, end) for generation, end in described["generations"]]

    def row_bytes(self) -> int:
        """What a row takes, about: the mean of the latest ones at the site."""
        described = self._site.describe(self.options.stream)
        return max(int(described.get("row_bytes", 1)), 1)

    def spans(self, begin: Place, until: Place) -> list[Span]:
        """What lies between two places, in parts for several tasks."""
        spans: list[Span] = []
        for generation, end in self.ends():
            first = begin[1] if generation == begin[0] else 0
            last = until[1] if generation == until[0] else end
            if not begin[0] <= generation <= until[0] or first >= last:
                continue
            most = self.options.whole("partitions", positive=True) or MOST_PARTITIONS
            count = max(1, min(most, -(-(last - first) // PARTITION_ROWS)))
            cuts = [first + (last - first) * n // count for n in range(count + 1)]
            spans += [
                Span((generation, cut), (generation, following))
                for cut, following in itertools.pairwise(cuts)
            ]
        return spans

    def rows(
        self,
        span: InputPartition,
        times_ms: tuple[int | None, int | None] = (None, None),
        where: Sequence[tuple[str, str, Any]] = (),
    ) -> Iterator[pa.RecordBatch]:
        """The results of a part, as Spark wants them."""
        if not isinstance(span, Span):
            # Spark plans one partition where there is none.
            return
        wanted = to_arrow_schema(self.schema, timezone="UTC")
        batches = self._site.results(
            self.options.stream,
            begin=span.begin,
            until=span.until,
            times_ms=times_ms,
            columns=self.schema.fieldNames(),
            where=where,
        )
        for batch in batches:
            columns = [batch.column(field.name).cast(field.type) for field in wanted]
            # Spark takes an empty batch for the end.
            if batch.num_rows:
                yield pa.RecordBatch.from_arrays(columns, schema=wanted)


class ResultsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Results as they come. An offset is the place of the next tuple."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._results = _Results(options, schema)
        self._available: Place | None = None

    def initialOffset(self) -> dict[str, int]:
        """The oldest result, or what comes next (`startingOffsets`: `earliest`, `latest`)."""
        begin = self._results.options.given.get("startingoffsets", "earliest")
        if begin not in ("earliest", "latest"):
            raise ValueError(f"vivace: startingOffsets is {begin!r}; write earliest or latest")
        return _offset((0, 0) if begin == "earliest" else self._end((0, 0)))

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """How far the results have come, or as far as the limit allows."""
        begin = _place(start)
        end = self._end(begin)
        if self._available is not None:
            end = max(begin, min(end, self._available))
        if isinstance(limit, ReadMaxBytes):
            limit = ReadMaxRows(max(limit.max_bytes // self._results.row_bytes(), 1))
        if isinstance(limit, ReadMaxRows):
            end = self._limited(begin, end, limit.max_rows)
        return _offset(end)

    def getDefaultReadLimit(self) -> ReadLimit:
        """The option `maxRowsPerBatch` or `maxBytesPerBatch`."""
        options = self._results.options
        rows = options.whole("maxRowsPerBatch", positive=True)
        size = options.whole("maxBytesPerBatch", positive=True)
        if rows is not None and size is not None:
            raise ValueError("vivace: write maxRowsPerBatch or maxBytesPerBatch, not both")
        if size is not None:
            return ReadMaxBytes(size)
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:
        """What comes from now on belongs to a later run."""
        self._available = self._end((0, 0))

    def reportLatestOffset(self) -> dict[str, int] | None:
        """How far the results have come, for the lag in the query's progress."""
        return _offset(self._end((0, 0)))

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Parts of a batch."""
        return self._results.spans(_place(start), _place(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part, on an executor."""
        return self._results.rows(partition)

    def commit(self, end: dict[str, int]) -> None:
        """The site's archive keeps all results: nothing waits for Spark."""

    def _end(self, begin: Place) -> Place:
        return max([begin, *self._results.ends()])

    def _limited(self, begin: Place, end: Place, rows: int) -> Place:
        for generation, last in self._results.ends():
            if not begin[0] <= generation <= end[0]:
                continue
            first = begin[1] if generation == begin[0] else 0
            last = end[1] if generation == end[0] else last
            if last - first >= rows:
                return generation, first + rows
            rows -= max(last - first, 0)
        return end


class ResultsReader(DataSourceReader):
    """Results that are there now.

    `startingTimestamp` and `endingTimestamp` (ms, both included) bound them. Conditions go to the
    site if `spark.sql.python.filterPushdown.enabled` is set; Spark tests them again.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self._results = _Results(options, schema)
        self._times_ms = options.whole("startingTimestamp"), options.whole("endingTimestamp")
        self._where: list[tuple[str, str, Any]] = []
        vars(self)["pushFilters"] = _Push(self._where)

    def partitions(self) -> Sequence[InputPartition]:
        """Parts of the results."""
        ends = self._results.ends()
        return self._results.spans((0, 0), ends[-1]) if ends else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part, on an executor."""
        return self._results.rows(partition, self._times_ms, self._where)


class _Push:
    """Takes conditions where the session pushes them down.

    In other sessions Spark refuses a reader that has a `pushFilters` of its own. It looks at the
    function behind the method, which here is that of its own base class.
    """

    def __init__(self, where: list[tuple[str, str, Any]]) -> None:
        self.__func__: Callable[..., Iterable[Filter]] = DataSourceReader.pushFilters
        self._where = where

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Note conditions for the site; all are left for Spark to test again."""
        self._where += [each for each in map(_condition, filters) if each is not None]
        return filters


def _condition(given: Filter) -> tuple[str, str, Any] | None:
    """A condition as the site knows it; None if it does not."""
    match given:
        case IsNull(attribute=(name,)):
            return name, "null", None
        case IsNotNull(attribute=(name,)):
            return name, "notnull", None
        case In(attribute=(name,), value=values) if all(map(_is_plain, values)):
            return name, "in", list(values)
        case (
            EqualTo(attribute=(name,), value=value)
            | GreaterThan(attribute=(name,), value=value)
            | GreaterThanOrEqual(attribute=(name,), value=value)
            | LessThan(attribute=(name,), value=value)
            | LessThanOrEqual(attribute=(name,), value=value)
        ) if _is_plain(value):
            return name, _comparisons[type(given)], value
        case _:
            return None


def _is_plain(value: object) -> bool:
    """Whether a value means the same at the site; NaN is not equal to itself there."""
    return isinstance(value, bool | int | float | str) and value == value


def _offset(place: Place) -> dict[str, int]:
    return {"generation": place[0], "seq": place[1]}


def _place(offset: Mapping[str, int]) -> Place:
    return offset["generation"], offset["seq"]
