"""Tables are read part by part, and refused with file, row, column, value and remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orchestrator.errors import InvalidInput
from orchestrator.spark.bulk.tables import read_table

COLUMNS = ("node", "rtt_ms")


def table(folder: Path, columns: Mapping[str, Sequence[object]], suffix: str) -> Path:
    file = folder / f"given{suffix}"
    if suffix == ".csv":
        given = zip(*columns.values(), strict=True)
        rows = [",".join("" if each is None else str(each) for each in row) for row in given]
        file.write_text("\n".join([",".join(columns), *rows]) + "\n", encoding="utf-8")
    else:
        pq.write_table(pa.table(dict(columns)), file)
    return file


def numbers(path: Path) -> list[float]:
    return [x for rows in read_table(path, COLUMNS) for x in rows.numbers("rtt_ms", 0.0).tolist()]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_columns_are_found_by_name_and_others_left_alone(tmp_path: Path, suffix: str) -> None:
    path = table(tmp_path, {"rtt_ms": [1.5, 0], "note": ["a", "b"], "node": ["x", "y"]}, suffix)
    assert numbers(path) == [1.5, 0.0]
    (rows,) = read_table(path, COLUMNS)
    assert rows.texts("node") == ["x", "y"]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize(
    ("value", "problem"),
    [(-3.0, "-3.0 is below 0"), (float("nan"), "nan is no number"), (None, "is missing"),
     (float("inf"), "inf is no number")],
)  # fmt: skip
def test_a_number_that_cannot_be_used_is_refused_with_its_row(
    tmp_path: Path, suffix: str, value: float | None, problem: str
) -> None:
    path = table(tmp_path, {"node": ["x", "y", "z"], "rtt_ms": [1.0, 2.0, value]}, suffix)
    with pytest.raises(InvalidInput) as refused:
        numbers(path)
    assert str(refused.value) == f"{path}, row 3: rtt_ms: {problem}. Write a number ≥ 0."


def test_a_text_among_the_numbers_of_a_csv_file_is_refused_with_its_row(tmp_path: Path) -> None:
    path = table(tmp_path, {"node": ["x", "y"], "rtt_ms": [1.0, "soon"]}, ".csv")
    with pytest.raises(InvalidInput, match="row 2: rtt_ms: 'soon' is no number"):
        numbers(path)


def test_rows_are_counted_within_their_file(tmp_path: Path) -> None:
    folder = tmp_path / "several"
    folder.mkdir()
    for name, values in {"a": [1.0, 2.0], "b": [3.0, -4.0]}.items():
        pq.write_table(pa.table({"node": ["x", "y"], "rtt_ms": values}), folder / f"{name}.parquet")
    (folder / "_SUCCESS").touch()
    with pytest.raises(InvalidInput, match=r"b\.parquet, row 2: rtt_ms: -4"):
        numbers(folder)


def test_rows_are_counted_through_all_batches(tmp_path: Path) -> None:
    count = 100_000
    path = table(
        tmp_path, {"node": ["x"] * count, "rtt_ms": [1.0] * (count - 1) + [-1.0]}, ".parquet"
    )
    with pytest.raises(InvalidInput, match=f"row {count}: rtt_ms"):
        numbers(path)


@pytest.mark.parametrize("value", [None, ""])
def test_a_name_that_is_missing_is_refused(tmp_path: Path, value: str | None) -> None:
    path = table(tmp_path, {"node": ["x", value], "rtt_ms": [1.0, 2.0]}, ".parquet")
    (rows,) = read_table(path, COLUMNS)
    with pytest.raises(InvalidInput, match="row 2: node"):
        rows.names("node")


def test_names_may_be_numbers_but_no_fractions(tmp_path: Path) -> None:
    path = table(tmp_path, {"node": [1, 2], "rtt_ms": [1.0, 2.0]}, ".parquet")
    (rows,) = read_table(path, COLUMNS)
    assert rows.texts("node") == ["1", "2"]
    with pytest.raises(InvalidInput, match="rtt_ms: 'double' is no type of names"):
        rows.names("rtt_ms")


def test_a_missing_column_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    path = table(tmp_path, {"node": ["x"], "rtt": [1.0]}, ".parquet")
    with pytest.raises(InvalidInput, match="rtt_ms: is missing among the columns node, rtt"):
        numbers(path)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("absent.parquet", None, "does not exist"),
        ("table.txt", b"", "is no suffix of a table"),
        ("damaged.parquet", b"PAR1 no", "cannot be read"),
        ("empty", None, "does not exist"),
    ],
)
def test_what_is_no_table_is_refused(
    tmp_path: Path, name: str, content: bytes | None, problem: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=problem):
        numbers(tmp_path / name)


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    (tmp_path / "_part.parquet").touch()
    with pytest.raises(InvalidInput, match="holds no file"):
        numbers(tmp_path)


def test_a_bom_is_none_of_a_name(tmp_path: Path) -> None:
    file = tmp_path / "given.csv"
    file.write_text("node,rtt_ms\na,1.5\n", encoding="utf-8-sig")
    assert numbers(file) == [1.5]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_column_that_is_there_twice_is_refused(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"given{suffix}"
    if suffix == ".csv":
        file.write_text("node,rtt_ms,node\na,1.5,b\n", encoding="utf-8")
    else:
        columns = [pa.array(["a"]), pa.array([1.5]), pa.array(["b"])]
        names = ["node", "rtt_ms", "node"]
        pq.write_table(pa.Table.from_batches([pa.RecordBatch.from_arrays(columns, names)]), file)
    with pytest.raises(InvalidInput, match="node: is there twice among the columns"):
        numbers(file)
