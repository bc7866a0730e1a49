"""In a real cluster, a query pauses and goes on, is deleted, and begins again from a savepoint.

A client pushes meanwhile. Every tuple that was acknowledged has its result, once, and each window
counts all that came in it: the archive is that of a query that was never disturbed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.sinks.delivered import GENERATION
from orchestrator.embedded.packages import source_root
from streams.vectors.reserved import TIMESTAMP
from tests.conftest import WaitUntil
from tests.functional.conftest import Vivace
from tests.functional.test_restart import MANIFEST, WINDOW_MS, begin, data, delivered, ok

__all__ = ["data"]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(900),
]

SCRIPT = source_root() / "orchestrator" / "deploy" / "vivace-container"

MORE = 200
"""Tuples that come between two steps."""


def job_applies(manifests: Path, home: Path) -> str:
    """Apply them from the savepoint `before`, as containers do; what was said."""
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [str(SCRIPT), "apply", "--from", "before", str(manifests)],
        env={**os.environ, "VIVACE_HOME": str(home), "PATH": programs},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_deleted_query_goes_on_from_a_savepoint(
    vivace: Vivace, data: Path, tmp_path: Path, wait_until: WaitUntil
) -> None:
    _, rest, pusher = begin(vivace, data, tmp_path, MANIFEST)

    def more() -> None:
        """Let some more come, whether anybody reads it or not."""
        enough = pusher.acknowledged + MORE
        wait_until(lambda: pusher.check() or pusher.acknowledged >= enough)

    def results() -> int:
        pusher.check()
        try:
            return delivered(data, "each").rows.num_rows
        except FileNotFoundError:
            return 0

    wait_until(lambda: results() > 0)
    ok(vivace, "pause", "restarts")
    before = results()
    more()
    assert results() == before
    assert "paused" in ok(vivace, "status")
    ok(vivace, "resume", "restarts")
    wait_until(lambda: results() > before)
    ok(vivace, "savepoint", "create", "before")
    more()
    runs = vivace("apply", "--file", rest, "--from", "before")
    assert runs.returncode == 2
    assert "the files name no query that does not run already" in runs.stderr
    ok(vivace, "delete", "restarts", "--keep-streams")
    more()

    unknown = vivace("apply", "--file", rest, "--from", "after")
    assert unknown.returncode == 2
    assert "--from" in unknown.stderr
    assert "is no savepoint of this cluster" in unknown.stderr
    piece = data / "state" / "savepoints" / "before" / "restarts.counts.piece"
    whole = piece.read_bytes()
    piece.write_bytes(whole[:-20])
    damaged = vivace("apply", "--file", rest, "--from", "before")
    assert damaged.returncode == 2
    assert "restarts.counts.piece is damaged" in damaged.stderr
    piece.write_bytes(whole)
    assert not json.loads(ok(vivace, "status", "--json"))["fragments"], "nothing was changed"

    plan = json.loads(ok(vivace, "plan", "--file", rest, "--from", "before", "--json"))
    (told,) = plan["changed"]
    assert told["savepoint"] == "before"
    effects = {each["fragment"]: each["effect"] for each in told["statements"]}
    assert effects == {"each": "state kept", "counts": "state kept"}
    # As the Job of a release of the chart does it; in a later upgrade, the query runs.
    assert "Query restarts from savepoint before" in job_applies(rest, tmp_path / "home")
    assert "Query restarts from savepoint before" not in job_applies(rest, tmp_path / "home")
    more()
    acknowledged = pusher.end()
    wait_until(lambda: delivered(data, "each").rows.num_rows == acknowledged)
    history = json.loads(ok(vivace, "history", "--json", "--limit", "1000"))["history"]
    ok(vivace, "down")

    assert not [each for each in history if each["kind"] == "state lost"]
    each, counts = delivered(data, "each").rows, delivered(data, "counts").rows
    assert each["number"].to_pylist() == list(range(acknowledged))
    for stream in ("each", "counts"):
        assert len(set(delivered(data, stream).rows[GENERATION].to_pylist())) == 1
        assert sequence_faults(delivered(data, stream)) == SequenceFaults(lost=0, repeated=0)
    came: dict[int, list[int]] = {}
    for at_ms, number in zip(each[TIMESTAMP].to_pylist(), each["number"].to_pylist(), strict=True):
        came.setdefault(at_ms + -at_ms % WINDOW_MS, []).append(number)
    columns = (counts[name].to_pylist() for name in (TIMESTAMP, "tuples", "newest"))
    # A window in which nothing came counts none.
    found = [row for row in zip(*columns, strict=True) if row[1]]
    last_ms = found[-1][0]
    assert found == [
        (at_ms, len(numbers), max(numbers)) for at_ms, numbers in came.items() if at_ms <= last_ms
    ]
