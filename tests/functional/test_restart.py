"""A whole cluster ends while a client pushes, and is started again on its folder.

Every tuple that was acknowledged has its result, once: of a statement without state, and of one
whose windows were open. Twice every process is killed, once the cluster ends in order. Fragments go
on from their checkpoints, so the numbers of results go on as well: the archive is that of a cluster
that was never disturbed.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import vivace as client
from orchestrator.deploy.context import find
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.sinks import read_back
from orchestrator.edges.sinks.delivered import GENERATION, Delivered
from orchestrator.embedded.ports import free_port
from streams.vectors.reserved import TIMESTAMP
from tests.conftest import PATIENCE_S, WaitUntil
from tests.functional.conftest import Vivace

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(900),
]

WINDOW_MS = 2000
BATCH = 5
PAUSE_S = 0.02
"""Between two batches; a site takes as many as come."""

MANIFEST = f"""kind: Cluster
name: restarted
nodes: [{{name: n1, region: here}}, {{name: n2, region: here}}]
sites: [{{name: desk, region: here}}]
state: {{folder: state, every: 2 s}}
---
kind: Stream
name: readings
site: desk
columns: {{number: int}}
rate: 10 KB/s
from: {{http: {{listen: PORT}}}}
---
kind: Query
name: restarts
deadline: 5 s
recovery: 5 s
outputs: {{each: desk, counts: desk}}
statements: |
  REGISTER QUERY each RSTREAM(SELECT number FROM readings [NOW]);
  REGISTER QUERY counts RSTREAM(SELECT count(*) AS tuples, max(number) AS newest
    FROM readings [RANGE {WINDOW_MS} MILLISECONDS SLIDE {WINDOW_MS} MILLISECONDS]);
"""


class Pusher:
    """A client that sends numbers, each batch until it is acknowledged."""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}"
        self._ends = threading.Event()
        self.acknowledged = 0
        self._thread = threading.Thread(target=self._push, daemon=True)
        self._thread.start()

    def _push(self) -> None:
        stream = client.site(self._address, patience_s=PATIENCE_S).stream("readings")
        while not self._ends.wait(PAUSE_S):
            numbers = range(self.acknowledged, self.acknowledged + BATCH)
            stream.send({"number": list(numbers)})
            self.acknowledged += BATCH

    def check(self) -> None:
        """Fail if the client has given up: nothing more would come."""
        assert self._thread.is_alive(), f"nothing is pushed after {self.acknowledged} numbers"

    def end(self) -> int:
        """Stop; returns how many numbers were acknowledged."""
        self._ends.set()
        self._thread.join()
        return self.acknowledged


def ours(folder: Path) -> list[psutil.Process]:
    """Processes whose command or folder is in a cluster's folder."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(folder) in line and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def kill_everything(home: Path, folder: Path, wait_until: WaitUntil) -> None:
    """Kill every process of a cluster, the first one first, so that none is started again."""
    first = psutil.Process(find(None, home).pid)
    for each in [first, *first.children(recursive=True), *ours(folder)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    wait_until(lambda: not ours(folder))


@pytest.fixture
def data(tmp_path: Path, vivace: Vivace, wait_until: WaitUntil) -> Iterator[Path]:
    """Folder of the cluster; nothing of it survives the test."""
    folder = tmp_path / "cluster-data"
    yield folder
    if ours(folder):
        vivace("down")
    wait_until(lambda: not ours(folder))


def ok(vivace: Vivace, *arguments: object) -> str:
    done = vivace(*arguments)
    assert done.returncode == 0, f"vivace {arguments}: {done.stdout}\n{done.stderr}"
    return done.stdout


def begin(vivace: Vivace, data: Path, folder: Path, manifest: str) -> tuple[Path, Path, Pusher]:
    """Start a cluster and a query, and push; the manifest of the cluster, and of the rest."""
    port = free_port()
    cluster, rest = folder / "cluster.yaml", folder / "rest.yaml"
    parts = manifest.replace("PORT", str(port)).split("---\n", 1)
    for file, part in zip((cluster, rest), parts, strict=True):
        file.write_text(part)
    ok(vivace, "up", "--file", cluster, "--data", data)
    ok(vivace, "apply", "--file", rest)
    return cluster, rest, Pusher(port)


def delivered(data: Path, stream: str) -> Delivered:
    return read_back(data / "archive", stream)


def test_what_was_acknowledged_has_its_results_after_everything_has_ended(
    vivace: Vivace, data: Path, tmp_path: Path, wait_until: WaitUntil
) -> None:
    cluster, _, pusher = begin(vivace, data, tmp_path, MANIFEST)

    def come() -> list[int]:
        try:
            return delivered(data, "each").rows["number"].to_pylist()
        except FileNotFoundError:
            return []

    def follows(count: int) -> bool:
        return len(come()) > count

    def pushed(count: int) -> bool:
        pusher.check()
        return follows(count)

    wait_until(lambda: pushed(200))
    for fragment in ("each", "counts"):
        kept = data / "state" / f"restarts.{fragment}"
        wait_until(lambda kept=kept: any(kept.glob("*.checkpoint")))
    wait_until(lambda taken=pusher.acknowledged: pushed(taken + 400))
    for kills in (True, False, True):
        before = pusher.acknowledged
        if kills:
            kill_everything(tmp_path / "home", data, wait_until)
        else:
            ok(vivace, "down")
        ok(vivace, "up", "--file", cluster, "--data", data)
        wait_until(lambda before=before: pushed(before + 200))
    acknowledged = pusher.end()
    wait_until(lambda: follows(acknowledged - 1))
    wait_until(lambda: newest(data) == acknowledged - 1)
    history = json.loads(ok(vivace, "history", "--json", "--limit", "1000"))["history"]
    assert [each for each in history if each["kind"] in ("state lost", "input lost")] == []
    assert {each["subject"] for each in history if each["kind"] == "restored"} == {
        "restarts.each",
        "restarts.counts",
    }
    assert list((data / "state" / "restarts.counts").glob("*.checkpoint"))
    ok(vivace, "down")
    assert come() == list(range(acknowledged))
    # Each window has counted all that came in it, also those that were open when all ended.
    counts = delivered(data, "counts").rows
    assert sum(counts["tuples"].to_pylist()) == acknowledged
    times = delivered(data, "each").rows[TIMESTAMP].to_pylist()
    for ended_ms, tuples in zip(
        counts[TIMESTAMP].to_pylist(), counts["tuples"].to_pylist(), strict=True
    ):
        assert tuples == sum(ended_ms - WINDOW_MS < at_ms <= ended_ms for at_ms in times)
    for stream in ("each", "counts"):
        assert len(set(delivered(data, stream).rows[GENERATION].to_pylist())) == 1
        assert sequence_faults(delivered(data, stream)) == SequenceFaults(lost=0, repeated=0)


def newest(data: Path) -> int:
    """The newest number that a window has counted; windows without any have none."""
    numbers = delivered(data, "counts").rows["newest"].to_pylist()
    return max((each for each in numbers if each is not None), default=-1)
