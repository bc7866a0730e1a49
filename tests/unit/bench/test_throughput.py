"""Every input of benchmark `throughput` gives the same answer, and differences are noticed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest

from bench import throughput, throughput_systems
from bench.registry import Settings
from bench.throughput import DifferentResults, check, compare
from bench.throughput_workload import generate, questions
from streams.kernels import kernels


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = kernels.current()
    monkeypatch.setattr(throughput_systems, "CHUNK_ROWS", 700)
    monkeypatch.setattr(throughput_systems, "BLOCK_BYTES", 4000)
    # Whichever kernels there are: the bits are the same.
    monkeypatch.setattr(kernels, "load", Mock(return_value=True))
    yield
    kernels.use(before)


def answered(system: str, name: str, kind: str, folder: Path) -> pa.Table:
    answer = throughput_systems.systems[system](questions[name], kind, folder)
    assert answer is not None
    return answer.table(answer.run())


@pytest.mark.parametrize("name", list(questions))
def test_inputs_of_either_kind_give_one_answer(name: str, tmp_path: Path) -> None:
    generate(questions[name], 3_000, tmp_path)
    results = {kind: answered("ours", name, kind, tmp_path) for kind in ("arrow", "csv")}
    assert results["arrow"].num_rows > 0
    compare(results["arrow"], results["csv"])


@pytest.mark.parametrize("name", ["tumbling", "join"])
def test_what_is_tried_on_files_is_the_same(name: str, tmp_path: Path) -> None:
    generate(questions[name], 3_000, tmp_path)
    compare(answered("ours", name, "csv", tmp_path), answered("try", name, "csv", tmp_path))


@pytest.mark.parametrize("name", ["tumbling", "sliding"])
@pytest.mark.parametrize("system", ["duckdb", "polars", "bytewax"])
def test_other_systems_have_our_windows(system: str, name: str, tmp_path: Path) -> None:
    pytest.importorskip(system)
    # Two seconds and a part of the third.
    generate(replace(questions[name], rows_by_ms=1), 2_500, tmp_path)
    compare(answered(system, name, "arrow", tmp_path), answered("ours", name, "arrow", tmp_path))


def test_spark_gets_a_last_tuple_that_ends_all_windows(tmp_path: Path) -> None:
    (tmp_path / "readings.csv").write_text("1,7,25.0,0\n2000,8,26.0,1\n")
    throughput_systems.write_parts(tmp_path / "readings.csv", tmp_path / "parts")
    lines = [file.read_text() for file in sorted((tmp_path / "parts").iterdir())]
    assert lines == ["1,7,25.0,0\n2000,8,26.0,1\n", "62000,0,100.0,0\n"]


def test_windows_count_what_passes_the_filter(tmp_path: Path) -> None:
    generate(questions["tumbling"], 3_000, tmp_path)
    texts = answered("ours", "tumbling", "strings", tmp_path)
    numbers = answered("ours", "tumbling", "arrow", tmp_path)
    values = throughput_systems.parquet.read_table(str(tmp_path / "readings.arrow.parquet"))
    passing = int(np.count_nonzero(values.column("value").to_numpy() > 20))
    for answer in (texts, numbers):
        assert int(answer.column("n").to_numpy().sum()) == passing


def test_a_wrong_sum_is_noticed() -> None:
    one = pa.Table.from_pydict({"_ts": [1, 2], "n": [1, 2], "total": [1.0, 2.0]})
    compare(one, pa.Table.from_pydict({"_ts": [2, 1], "n": [2, 1], "total": [2.0 + 1e-12, 1.0]}))
    for other in (
        {"_ts": [1, 2], "n": [1, 2], "total": [1.0, 2.1]},
        {"_ts": [1], "n": [1], "total": [1.0]},
    ):
        with pytest.raises(DifferentResults):
            compare(one, pa.Table.from_pydict(other))


def test_the_system_whose_result_differs_is_named() -> None:
    standard = pa.Table.from_pydict({"_ts": [1_000], "n": [2]})
    check("polars", standard, standard)
    with pytest.raises(DifferentResults, match="spark: column n differs"):
        check("spark", pa.Table.from_pydict({"_ts": [1_000], "n": [1]}), standard)


def test_a_rate_counts_only_with_the_right_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer_wrongly(system: str, given: throughput.Input, repeats: int) -> list[float]:
        table = pa.Table.from_pydict({"_ts": [1_000], "n": [1 + (system == wrong)]})
        path = given.folder / f"{given.name}.{given.kind}.{system}.result"
        throughput_systems.parquet.write_table(table, str(path))
        return [2.0] * repeats

    def is_installed(name: str) -> bool:
        return True

    monkeypatch.setattr(throughput, "_run", answer_wrongly)
    monkeypatch.setattr(throughput, "find_spec", is_installed)
    whole = throughput.Input(name="tumbling", kind="csv", folder=tmp_path, rows=10)
    fewer = tmp_path / "fewer"
    fewer.mkdir()
    slow = throughput.Input(name="tumbling", kind="csv", folder=fewer, rows=4)
    settings = Settings(quick=False, folder=tmp_path, say=print)
    wrong = ""
    flat = throughput.rates(settings, whole, slow)
    assert flat["tumbling.csv.spark.rows_s"] == 5
    assert flat["tumbling.csv.bytewax.rows_s"] == 2
    assert flat["tumbling.csv.correct"] == 1
    for wrong in ("ours", "polars", "bytewax", "spark"):
        with pytest.raises(DifferentResults, match=wrong):
            throughput.rates(settings, whole, slow)
