"""Every input of benchmark `throughput` gives the same answer, and differences are noticed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bench import throughput_systems
from bench.throughput import DifferentResults, compare
from bench.throughput_workload import generate, questions
from streams.panes import kernels


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = kernels.current()
    monkeypatch.setattr(throughput_systems, "CHUNK_ROWS", 700)
    monkeypatch.setattr(throughput_systems, "BLOCK_BYTES", 4000)
    # Whichever kernels there are: the bits are the same.
    monkeypatch.setattr(kernels, "load", lambda: True)
    yield
    kernels.use(before)


@pytest.mark.parametrize("name", list(questions))
def test_inputs_of_either_kind_give_one_answer(name: str, tmp_path: Path) -> None:
    question = questions[name]
    generate(question, 3_000, tmp_path)
    results = {
        kind: throughput_systems.ours(question, kind, tmp_path)() for kind in ("arrow", "csv")
    }
    assert results["arrow"] is not None
    assert results["csv"] is not None
    assert results["arrow"].num_rows > 0
    compare(results["arrow"], results["csv"])


def test_windows_count_what_passes_the_filter(tmp_path: Path) -> None:
    question = questions["tumbling"]
    generate(question, 3_000, tmp_path)
    texts = throughput_systems.ours(question, "strings", tmp_path)()
    numbers = throughput_systems.ours(question, "arrow", tmp_path)()
    assert texts is not None
    assert numbers is not None
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
