"""The table of docs/live-streams.md says what formats make of types; each value is tried."""

from __future__ import annotations

import io
import json
import math
import re
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from orchestrator.edges.sources.formats.files import read_rows
from orchestrator.edges.sources.formats.formats import parse
from orchestrator.edges.sources.formats.row_form import Format, RowForm, Unreadable

PAGE = Path(__file__).parents[3] / "docs" / "live-streams.md"
HEAD = "| for | CSV | JSON | Arrow, Parquet, Python | becomes |\n"
_code = re.compile(r"`([^`]*)`")
_decimal = re.compile(r"decimal128\((\d+), (\d+)\)")


def cases() -> list[Any]:
    """Type, format, value as it is written, and what becomes of it."""
    rows = PAGE.read_text(encoding="utf-8").split(HEAD)[1].split("\n\n")[0].splitlines()[1:]
    found: list[Any] = []
    for row in rows:
        kind, *written, becomes = [cell.strip() for cell in row.strip("|").split(" | ")]
        (kind,) = _code.findall(kind) if not kind.startswith("timestamp") else (kind,)
        result = becomes if becomes == "refused" else _code.findall(becomes)[0]
        for format_, cell in zip(Format, written, strict=True):
            found += [
                pytest.param(kind.replace("`", ""), format_, value, result,
                             id=f"{kind}-{format_.value}-{value}")
                for value in _code.findall(cell)
            ]  # fmt: skip
    return found


def arrow_table(written: str) -> pa.Table:
    kind, _, text = written.partition(": ")
    value = json.loads(text, parse_float=str if kind.startswith("decimal") else None)
    decimal = _decimal.fullmatch(kind)
    if decimal is not None:
        column = pa.array([Decimal(value)], pa.decimal128(int(decimal[1]), int(decimal[2])))
    elif kind.startswith("timestamp"):
        column = pa.array([datetime.fromisoformat(value)], pa.timestamp(kind[10:-1]))
    elif kind == "date32":
        column = pa.array([date.fromisoformat(value)])
    else:
        column = pa.array([value], pa.type_for_alias(kind))
    return pa.table({"value": column, "beside": ["x"]})


def bodies(format_: Format, written: str) -> list[tuple[str, bytes]]:
    """The value as it comes: suffix of a file, or nothing for a body; and the bytes."""
    match format_:
        case Format.CSV:
            value = "" if written == "(nothing)" else written
            return [("", f"value,beside\n{value},x\n".encode())]
        case Format.JSON:
            value = "" if written == "(missing)" else f'"value": {written}, '
            return [("", f'{{{value}"beside": "x"}}'.encode())]
        case Format.ARROW:
            table = arrow_table(written)
            stream, file, columnar = io.BytesIO(), io.BytesIO(), io.BytesIO()
            for writer in (ipc.new_stream(stream, table.schema), ipc.new_file(file, table.schema)):
                writer.write_table(table)
                writer.close()
            parquet.write_table(table, columnar)
            written_as = {"": stream, ".arrows": stream, ".arrow": file, ".parquet": columnar}
            return [(suffix, each.getvalue()) for suffix, each in written_as.items()]


@pytest.mark.parametrize(("kind", "format_", "written", "becomes"), cases())
def test_a_value_becomes_what_the_page_says(
    kind: str, format_: Format, written: str, becomes: str
) -> None:
    form = RowForm(columns={"value": kind, "beside": "string"})
    if kind.startswith("timestamp"):
        _, format_of_time = kind.split()
        form = RowForm(
            columns={"beside": "string"}, time_column="value", time_format=format_of_time
        )
    for suffix, body in bodies(format_, written):

        def read(suffix: str = suffix, body: bytes = body) -> pa.RecordBatch:
            if suffix:
                return read_rows(suffix, io.BytesIO(body), form)
            return parse(form, format_, body)

        if becomes == "refused":
            with pytest.raises(Unreadable, match="column value"):
                read()
            continue
        value = read().column(0 if kind.startswith("timestamp") else 1)[0].as_py()
        # The engine takes floats that are not finite for NULL.
        if isinstance(value, float) and not math.isfinite(value):
            value = None
        assert ("NULL" if value is None else json.dumps(value)) == becomes


def test_the_table_has_all_types_and_formats() -> None:
    found = {(case.values[0], case.values[1]) for case in cases()}
    kinds = {"int", "float", "string", "bool", *(f"timestamp {u}" for u in ("s", "ms", "us", "ns"))}
    assert {(kind, format_) for kind in kinds for format_ in Format} <= found
