from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyarrow import RecordBatch, Schema, Table

class ColumnChunkMetaData:
    path_in_schema: str
    num_values: int
    has_dictionary_page: bool
    dictionary_page_offset: int | None
    data_page_offset: int
    total_compressed_size: int

class RowGroupMetaData:
    num_columns: int
    def column(self, i: int) -> ColumnChunkMetaData: ...

class FileMetaData:
    num_rows: int
    num_row_groups: int
    def row_group(self, i: int) -> RowGroupMetaData: ...

class ParquetFile:
    metadata: FileMetaData
    schema_arrow: Schema
    def __init__(self, source: Any, *, read_dictionary: Sequence[str] | None = None) -> None: ...
    def iter_batches(
        self,
        batch_size: int = 65536,
        row_groups: Sequence[int] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[RecordBatch]: ...
    def read(self, columns: Sequence[str] | None = None) -> Table: ...
    def close(self) -> None: ...

class ParquetWriter:
    def __init__(self, where: Any, schema: Schema) -> None: ...
    def write_batch(self, batch: RecordBatch) -> None: ...
    def write_table(self, table: Table) -> None: ...
    def close(self) -> None: ...

def read_table(source: Any, columns: Sequence[str] | None = None) -> Table: ...
def write_table(
    table: Table,
    where: Any,
    *,
    row_group_size: int | None = ...,
    compression: str = ...,
    use_dictionary: bool = ...,
    data_page_version: str = ...,
    data_page_size: int | None = ...,
    dictionary_pagesize_limit: int | None = ...,
    column_encoding: Mapping[str, str] | None = ...,
) -> None: ...
