"""What a full disk leaves of a batch in parts makes room again."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pytest

from orchestrator.edges.sources.live import batches as module
from orchestrator.edges.sources.live.batches import Batches
from tests.integration.orchestrator.edges.sources.live.test_batches import BY_NUMBER
from tests.integration.orchestrator.edges.sources.test_http import Site


def test_a_commit_that_a_full_disk_stopped_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path / "site")
    source = site.open(BY_NUMBER)
    folder = tmp_path / "batches"
    batches = Batches(folder, source.schema, source, most_bytes=2**30)
    numbers = list(range(10_000))
    rows = pa.RecordBatch.from_arrays(
        [pa.array(numbers), pa.array(numbers), pa.array(["x" * 100] * len(numbers))],
        schema=source.schema,
    )
    batches.stage("spark", 1, "a", rows)

    def taken() -> int:
        return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())

    staged_bytes = taken()

    def full(_: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(module, "sync", full)
        # The site responds with 503, and the client sends its commit again and again.
        for _ in range(3):
            with pytest.raises(OSError, match="No space"):
                batches.commit("spark", 1, ["a"])
    left_bytes = taken() - staged_bytes
    # A restart does not find it either.
    Batches(folder, source.schema, source, most_bytes=2**30)
    assert batches.commit("spark", 1, ["a"]).accepted == len(numbers)
    after_bytes = taken()
    site.close()
    assert (left_bytes, after_bytes) == (0, 0), "bytes of the site's disk that nobody gives back"
