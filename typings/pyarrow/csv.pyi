from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyarrow import DataType, RecordBatch, Table

class ReadOptions:
    def __init__(
        self,
        *,
        use_threads: bool = True,
        block_size: int | None = None,
        column_names: Sequence[str] | None = None,
    ) -> None: ...

class ParseOptions:
    def __init__(self, *, newlines_in_values: bool = False) -> None: ...

class ConvertOptions:
    def __init__(
        self,
        *,
        column_types: Mapping[str, DataType] | None = None,
        include_columns: Sequence[str] | None = None,
        null_values: Sequence[str] | None = None,
        strings_can_be_null: bool = False,
        quoted_strings_can_be_null: bool = True,
    ) -> None: ...

def open_csv(
    input_file: Any,
    read_options: ReadOptions | None = None,
    parse_options: ParseOptions | None = None,
    convert_options: ConvertOptions | None = None,
) -> Iterator[RecordBatch]: ...
def read_csv(
    input_file: Any,
    read_options: ReadOptions | None = None,
    parse_options: ParseOptions | None = None,
    convert_options: ConvertOptions | None = None,
) -> Table: ...
class WriteOptions:
    def __init__(
        self, *, include_header: bool = ..., batch_size: int = ..., quoting_style: str = ...
    ) -> None: ...

def write_csv(
    data: Table | RecordBatch, output_file: Any, write_options: WriteOptions | None = ...
) -> None: ...
