"""A journal whose disk was full is opened again once there is room."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FILLS = """
import resource, signal, sys
from pathlib import Path
import pyarrow as pa
from orchestrator.edges.sources.live.journal import Commit, Journal
from streams.vectors.chunk import stream_schema

# Writing beyond the limit fails, as where a disk is full (EFBIG in place of ENOSPC).
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder, schema = Path(sys.argv[1]), stream_schema({"name": "string"})

def accepted(length):
    rows = pa.RecordBatch.from_pydict({"_ts": [1], "name": ["x" * length]}, schema=schema)
    return Commit(chunks=[], waiting=rows, watermark_ms=0, newest_ms=1)

journal = Journal(folder, schema)
journal.append(accepted(10))
(file,) = folder.glob("*.journal")
unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 100, unlimited))
try:
    journal.append(accepted(500))
except OSError:
    pass
else:
    sys.exit("the disk was not full")
try:
    # As the host does, whatever state the source is in.
    journal.close()
except OSError:
    pass
resource.setrlimit(resource.RLIMIT_FSIZE, (unlimited, unlimited))
again = Journal(folder, schema)
print(sum(batch.num_rows for batch in again.take_waiting()))
"""


def test_a_journal_is_opened_again_when_its_full_disk_has_room(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILLS, str(tmp_path / "journal")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr.strip().splitlines()[-1]
    assert done.stdout.strip() == "1"


OPENS = """
import resource, signal, sys
from pathlib import Path
from orchestrator.edges.sources.live.journal import Journal
from streams.vectors.chunk import stream_schema

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder, schema = Path(sys.argv[1]), stream_schema({"name": "string"})
unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (20, unlimited))
try:
    Journal(folder, schema)
except OSError:
    pass
else:
    sys.exit("the disk was not full")
resource.setrlimit(resource.RLIMIT_FSIZE, (unlimited, unlimited))
Journal(folder, schema)
"""


def test_a_journal_that_could_not_be_begun_on_a_full_disk_is_opened_later(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OPENS, str(tmp_path / "journal")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr.strip().splitlines()[-1]
