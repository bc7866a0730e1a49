"""The Spark data source `vivace`: DataFrames into a stream of a site, results as DataFrames.

>>> spark.dataSource.register(vivace.spark.VivaceDataSource)    # once a session
>>> df.writeStream.format("vivace").option("address", "http://127.0.0.1:8642")   \\
...     .option("stream", "readings").option("checkpointLocation", "/tmp/in").start()
>>> spark.readStream.format("vivace").option("address", "http://127.0.0.1:8642") \\
...     .option("stream", "hot").load()

Tasks on executors exchange record batches with the site; the driver carries no tuples.

*Written once.* Tasks stage parts at the site. When all have, the driver commits them, and they
enter together, in the order of their timestamps. A batch is named by the identifiers of the
streaming query and of the batch, which are in the query's checkpoint. So it enters once, however
often tasks or the query are repeated.

With the option `path`, a streaming query writes numbered files instead, which two sites read
(`vivace.spark.files`).

*Read once.* An offset is a generation and a sequence number, which stay the same whatever restarts.
The site's archive keeps all results, so that `commit` has nothing to release there.
"""

from __future__ import annotations

import uuid

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from vivace.spark.files import FilesWriter, TargetFolder
from vivace.spark.options import Options
from vivace.spark.reading import ResultsReader, ResultsStreamReader
from vivace.spark.writing import StreamWriter, TableWriter

__all__ = ["VivaceDataSource"]

_types: dict[str, DataType] = {
    "int": LongType(),
    "float": DoubleType(),
    "string": StringType(),
    "bool": BooleanType(),
}


class VivaceDataSource(DataSource):
    """Streams and results of a Vivace site, for `spark.dataSource.register`."""

    @classmethod
    def name(cls) -> str:
        """The format."""
        return "vivace"

    def schema(self) -> StructType:
        """Of results: generation, sequence number, timestamp in ms, then the output's columns."""
        options = self._options
        columns = options.site.describe(options.stream)["columns"]
        named = {"_generation": "int", "_seq": "int", "_ts": "int", **columns}
        return StructType(
            [StructField(name, _types[kind], nullable=True) for name, kind in named.items()]
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        """Results that are there now."""
        return ResultsReader(self._options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Results as they come."""
        return ResultsStreamReader(self._options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A DataFrame into a stream."""
        if overwrite:
            raise ValueError('vivace: a stream is only appended to; write mode("append")')
        options = self._options
        return TableWriter(options, options.given.get("id") or uuid.uuid4().hex)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """A streaming DataFrame into a stream, or into files that sites read."""
        if self.options.get("path") is not None:
            return FilesWriter(TargetFolder.read(self.options, schema), schema)
        return StreamWriter(self._options)

    @property
    def _options(self) -> Options:
        return Options.read(self.options)
