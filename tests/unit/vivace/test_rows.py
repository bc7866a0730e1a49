"""What programs hand over as rows: taken where it can be exactly, else refused with the reason."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import vivace
from vivace.rows import table_of


class Frame:
    """Offers what a DataFrame of pandas or Polars does, and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


LAYOUTS = pa.table(
    {
        "coded": pa.array(["a", None, "a"]).dictionary_encode(),
        "viewed": pa.array(["a", None, "b"], pa.string_view()),
        "both": pa.array(["x", "y", "x"]).cast(pa.dictionary(pa.int8(), pa.string_view())),
        "held": pa.array([{"in": "a"}] * 3, pa.struct([("in", pa.string_view())])),
    }
)


@pytest.mark.parametrize("rows", [LAYOUTS, LAYOUTS.to_batches()[0], Frame(LAYOUTS)])
def test_layouts_that_no_site_takes_become_the_values_that_they_stand_for(rows: Any) -> None:
    table = table_of(rows)
    assert table.schema.types == [
        pa.string(), pa.string(), pa.string(), pa.struct([("in", pa.string())]),
    ]  # fmt: skip
    assert table.to_pydict() == LAYOUTS.to_pydict()


def test_types_that_sites_convert_are_sent_as_they_are() -> None:
    table = pa.table(
        {
            "large": pa.array(["a"], pa.large_string()),
            "decimal": pa.array([Decimal("2.0")], pa.decimal128(3, 1)),
            "day": pa.array([date(2026, 7, 2)]),
        }
    )
    assert table_of(Frame(table)).schema.types == table.schema.types


def test_an_index_without_a_name_is_no_column() -> None:
    table = pa.table({"n": [1, 2], "__index_level_0__": [3, 4]})
    assert table_of(Frame(table)).to_pydict() == {"n": [1, 2]}


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (
            {"name": ["a", None, float("nan")]},
            "column name, row 3: nan is of type float, and 'a' before it of type str; write None",
        ),
        (
            [{"n": 1}, {"n": "x"}],
            "column n, row 2: 'x' is of type str, and 1 before it of type",
        ),
        ({"n": [2**70]}, "column n, row 1: 1180591620717411303424: .*too large"),
        ({"n": [object()]}, "column n, row 1: <object"),
        ({"name": ["\ud800"]}, r"column name, row 1: '\\ud800': .*surrogates"),
        ({"a": [1], "b": [1, 2]}, "Column 1 named b expected length 1 but got length 2"),
        ({"a": 1}, "rows are a list of dicts, .* or a DataFrame"),
        ({"a": "text"}, "rows are a list of dicts"),
        (["text"], "rows are a list of dicts"),
        (5, "rows are a list of dicts"),
        (pa.chunked_array([[1]]), "rows are a list of dicts"),
    ],
)
def test_rows_that_are_none_are_refused_with_the_reason(rows: Any, reason: str) -> None:
    with pytest.raises(vivace.Refused, match=f"^nothing was sent: {reason}"):
        table_of(rows)


def test_no_library_of_data_frames_is_imported() -> None:
    """Nor looked for: it may be there and take seconds to import."""
    told = "import sys, vivace; print(sorted({'pandas', 'polars'} & sys.modules.keys()))"
    found = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
