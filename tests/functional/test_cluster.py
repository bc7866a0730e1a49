"""A whole cluster by hand, as in the tour: up, apply, status, tail, a switchover, a drain, a drill,
sites killed, down. And a cluster of whose drills the terminal is closed.

Commands that only ask or that are repeated run without a process of their own (`vivace_here`).

Secondaries are sent no tuple; checkpoints keep them warm.

Right before the drill, the coordinators and one of three ZooKeeper servers are killed. The clock is
set by an hour before sites start again.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from orchestrator.cli.invocation import EXIT_FAILED
from orchestrator.clock import OFFSET_FILE
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.sinks import read_back
from tests.conftest import WaitUntil
from tests.functional.conftest import Vivace
from tests.pairs import SITES, Input, Rows, answer

HOUR_S = 3600
LOOK_S = 0.25
"""How often a command is asked whether something has happened yet."""

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    # Twenty commands: each takes up to ten seconds on a loaded machine.
    pytest.mark.timeout(600),
]

CLUSTER = f"""kind: Cluster
name: pairs
nodes: [{{name: n1, region: n1}}, {{name: n2, region: n2}}, {{name: n3, region: n3}}]
sites: [{", ".join(f"{{name: {site}, region: {site}}}" for site in SITES)}]
latencies: latency.csv
coordinators: 2
zookeeper: {{servers: 3}}
"""


TOTALS = """kind: Query
name: summing
deadline: 1 s
recovery: 300 ms
partial: always
outputs: {totals: exit}
statements: |
  REGISTER QUERY totals RSTREAM(
    SELECT key, count(*) AS readings, sum(value) AS total
    FROM west [RANGE 2 SECONDS SLIDE 500 MILLISECONDS] GROUP BY key);
"""
"""Split into a partial and a final statement: each is a fragment that may fail."""


def totals(recording: Input) -> Rows:
    """What `TOTALS` results in."""
    sums: dict[tuple[int, int], tuple[int, int]] = {}
    for at, key, value in recording.west:
        first_ms = -(-at // 500) * 500
        for boundary_ms in range(first_ms, at + 2000, 500):
            readings, total = sums.get((boundary_ms, key), (0, 0))
            sums[boundary_ms, key] = readings + 1, total + value
    return sorted((at, key, *found) for (at, key), found in sums.items())


def ok(vivace: Vivace, *arguments: object) -> str:
    done = vivace(*arguments)
    assert done.returncode == 0, f"vivace {arguments}: {done.stdout}\n{done.stderr}"
    return done.stdout


def drilled(vivace: Vivace, name: str) -> dict[str, Any]:
    """The report of a drill that cost nothing but, perhaps, time: the tests' machine is busy."""
    done = vivace("drill", "run", name, "--json")
    report = json.loads(done.stdout)
    assert "lost" in report, report
    assert (report["lost"], report["repeated"], report["differing"]) == (0, 0, 0)
    assert not report["aborted"]
    took_too_long = report["recovery_ms"] > report["bound_ms"]
    assert done.returncode == (EXIT_FAILED if took_too_long else 0), done.stderr
    return report


def processes(folder: Path) -> list[str]:
    """Command lines of live processes that name something in the folder."""
    lines: list[str] = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(folder) in line and process.info["status"] != psutil.STATUS_ZOMBIE:
            lines.append(line)
    return lines


@pytest.fixture(autouse=True)
def clock_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Holds the seconds by which processes that start take the wall clock to be ahead."""
    file = tmp_path / "clock"
    file.write_text("0")
    monkeypatch.setenv(OFFSET_FILE, str(file))
    return file


@pytest.fixture
def data(tmp_path: Path, vivace: Vivace, wait_until: WaitUntil) -> Iterator[Path]:
    """Folder of the cluster; nothing of it survives the test."""
    folder = tmp_path / "cluster-data"
    yield folder
    if processes(folder):
        vivace("down")
    wait_until(lambda: not processes(folder))


def test_up_apply_status_tail_drill_down(
    vivace: Vivace,
    vivace_here: Vivace,
    data: Path,
    tmp_path: Path,
    clock_file: Path,
    wait_until: WaitUntil,
) -> None:
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    recording = Input.random(seed=3, seconds=5, every_ms=20.0)
    pairs = recording.write(manifests, repeat=True, standby="upstream")
    cluster = tmp_path / "manifests" / "cluster.yaml"
    _, rest = pairs.read_text().split("---\n", 1)
    pairs.write_text(rest.replace("site: west-site", "sites: [west-site, east-site]"))
    cluster.write_text(CLUSTER)
    (manifests / "totals.yaml").write_text(TOTALS)

    ok(vivace, "up", "--file", cluster, "--data", data)
    assert processes(data)
    ok(vivace, "apply", "--file", pairs)
    ok(vivace_here, "apply", "--file", manifests / "totals.yaml")

    def flows() -> bool:
        return any(row["completed_timestamps"] for row in sinks(vivace_here))

    wait_until(flows, every_s=LOOK_S)
    lines = ok(vivace, "tail", "pairs", "--limit", 5, "--json").splitlines()
    assert len(lines) == 5
    assert all({"_seq", "_ts"} <= json.loads(line).keys() for line in lines)

    move_on_purpose(vivace_here, wait_until)
    wait_until(lambda: counted(vivace_here, "checkpoints_followed") > 0, every_s=LOOK_S)
    kill(data, "coordinator-1", "coordinator-2")
    server(data / "zookeeper" / "server-1" / "zoo.cfg").kill()
    report = drilled(vivace, "kill-executor")
    assert report["bound_ms"] == 300
    assert isinstance(report["detection_ms"], float)
    assert report["gap_ms"] > 0
    assert report["redundancy_restored_s"] > 0
    assert report["killed_node"] in {"n1", "n2", "n3"}
    assert {"pairs", "pair_counts"} <= set(report["compared"])

    # Those of the leader that was killed have gone with its session.
    wait_until(lambda: figured(vivace_here), every_s=LOOK_S)
    report = drilled(vivace, "kill-sink-site")
    page = data / "drills.html"
    audit = json.loads(ok(vivace_here, "drill", "report", "--html", str(page), "--json"))
    runs = {each["name"]: each["runs"] for each in audit["drills"]}
    assert (runs["kill-executor"], runs["kill-sink-site"], runs["hang"]) == (1, 1, 0)
    assert audit["runs"][1]["report"]["recovery_ms"] == report["recovery_ms"]
    assert page.read_text().count("<img ") == 2
    assert audit["unended"] == []
    assert ok(vivace_here, "history", "--limit", 1000).count("drill begun") == 2

    for sites, hours in ((("west-site",), 1), (("exit",), -1), (("west-site", "exit"), 0)):
        # As if the machine's clock had been set before they start again.
        clock_file.write_text(str(hours * HOUR_S))
        kill(data, *(f"site-{site}" for site in sites))
        before = min(row["watermark_ms"] or 0 for row in sinks(vivace_here))
        wait_until(lambda before=before: resumed(vivace_here, before), every_s=LOOK_S)
    wait_until(lambda: stands_by(vivace_here), every_s=LOOK_S)
    assert "source taken over" in ok(vivace_here, "history", "--limit", 1000)

    ok(vivace, "down")
    assert processes(data) == []
    replayed = recording.repeated(100)
    for stream, expected in {**replayed.expected(), "totals": totals(replayed)}.items():
        kept = read_back(data / "archive", stream)
        end_ms = int(kept.completed_column("watermark_ms")[-1])
        assert sequence_faults(kept) == SequenceFaults(lost=0, repeated=0)
        # `totals` was applied while its stream ran: its first windows are not whole.
        begin_ms = answer(kept)[0][0] + 2000 if stream == "totals" else 0
        found = [row for row in answer(kept) if row[0] >= begin_ms]
        assert found == [row for row in expected if begin_ms <= row[0] <= end_ms]
        assert float(np.abs(kept.latencies_ms).max()) < HOUR_S * 1000 / 2


@pytest.mark.long
def test_a_drill_whose_processes_are_killed_leaves_no_fault_behind(
    vivace_here: Vivace, data: Path, tmp_path: Path, wait_until: WaitUntil
) -> None:
    recording = Input.random(seed=4, seconds=5, every_ms=20.0)
    pairs = recording.write(tmp_path, repeat=True)
    cluster = tmp_path / "cluster.yaml"
    _, rest = pairs.read_text().split("---\n", 1)
    pairs.write_text(rest)
    cluster.write_text(
        CLUSTER.replace(", {name: n3, region: n3}", "").replace("servers: 3", "servers: 1")
    )
    ok(vivace_here, "up", "--file", cluster, "--data", data)
    ok(vivace_here, "apply", "--file", pairs)
    for drill, has_fault in (("pause-zookeeper", stops), ("fill-disk", is_full)):
        before = min((row["watermark_ms"] or 0 for row in sinks(vivace_here)), default=0)
        wait_until(lambda before=before: resumed(vivace_here, before, 2), every_s=LOOK_S)
        abandon(drill, data, has_fault, wait_until)
        wait_until(lambda: vivace_here("status").returncode == 0, every_s=LOOK_S)
        before = min(row["watermark_ms"] or 0 for row in sinks(vivace_here))
        wait_until(lambda before=before: resumed(vivace_here, before, 2), every_s=LOOK_S)
    audit = json.loads(ok(vivace_here, "drill", "report", "--json"))
    assert [each["subject"] for each in audit["unended"]] == ["pause-zookeeper", "fill-disk"]


def move_on_purpose(vivace: Vivace, wait_until: WaitUntil) -> None:
    """Primary and secondary change roles, and the new primary's node is drained and used again."""
    (switched,) = persist(vivace, wait_until, "switchover", "pairs")["moves"]
    assert switched["primary"] == switched["secondary"][::-1]
    node = switched["primary"][1]
    assert persist(vivace, wait_until, "drain", node)["remaining"] == []
    nodes = json.loads(ok(vivace, "status", "--json"))["nodes"]
    (free,) = [each for each in nodes if each["node"] == node]
    assert (free["cordoned"], free["primaries"], free["secondaries"]) == (True, 0, 0)
    refused = vivace("move", "pairs", "secondary", node)
    assert refused.returncode == 2
    assert "is cordoned" in refused.stderr
    ok(vivace, "uncordon", node)


def persist(vivace: Vivace, wait_until: WaitUntil, *arguments: object) -> dict[str, Any]:
    """Have something moved. While a machine is busy a move would break a promise: refused."""
    document: dict[str, Any] = {}

    def moves() -> bool:
        done = vivace(*arguments, "--json")
        document.update(json.loads(done.stdout))
        if done.returncode == 0:
            return True
        told = document["error"]["message"] if done.returncode == 2 else document["moves"]
        assert any(promise in str(told) for promise in ("deadline", "the bound of query")), told
        return False

    wait_until(moves, every_s=LOOK_S)
    assert document["done"]
    return document


def counted(vivace: Vivace, event: str) -> int:
    """How often something has happened on the hosts that live."""
    nodes = json.loads(ok(vivace, "status", "--json"))["nodes"]
    return sum(node["counters"].get(event, 0) for node in nodes)


def abandon(
    drill: str, folder: Path, has_fault: Callable[[Path], bool], wait_until: WaitUntil
) -> None:
    """Begin a drill, close its terminal, and kill who runs it; its fault must end by itself."""
    begun = subprocess.Popen(
        [sys.executable, "-m", "orchestrator.cli.main", "drill", "run", drill],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )

    def struck() -> bool:
        assert begun.poll() is None, begun.communicate()[1]
        return has_fault(folder)

    try:
        wait_until(struck)
        web = member(folder, "web")
        below = web.children(recursive=True)
        # A site strikes itself, and ZooKeeper is struck by a child of who runs the drill.
        assert bool(below) == (drill == "pause-zookeeper")
        os.killpg(begun.pid, signal.SIGHUP)
        assert begun.wait() == -signal.SIGHUP
        web.kill()
        wait_until(lambda: not has_fault(folder))
        wait_until(lambda: not any(each.is_running() for each in below))
    finally:
        begun.kill()
        begun.wait()


def stops(folder: Path) -> bool:
    """Whether the ZooKeeper server is stopped."""
    (settings,) = (folder / "zookeeper").rglob("zoo.cfg")
    return server(settings).status() == psutil.STATUS_STOPPED


def is_full(folder: Path) -> bool:
    """Whether the site of the outputs can write nothing to its files."""
    return member(folder, "site-exit").rlimit(psutil.RLIMIT_FSIZE)[0] != psutil.RLIM_INFINITY


def kill(folder: Path, *members: str) -> None:
    """SIGKILL to members of the cluster, not to their supervisors."""
    for name in members:
        member(folder, name).kill()


def member(folder: Path, name: str) -> psutil.Process:
    """A member of the cluster."""
    config = str(folder / "logs" / f".{name}.json")
    # A child that it has just forked has its command for a moment.
    found = [p for p in psutil.process_iter() if is_program(p, "-m", config)]
    return min(found, key=lambda process: process.create_time())


def server(settings: Path) -> psutil.Process:
    """The ZooKeeper server with these settings."""
    java = [p for p in psutil.process_iter() if is_program(p, "-XX:+UseSerialGC", str(settings))]
    (process,) = java
    return process


def is_program(process: psutil.Process, first: str, last: str) -> bool:
    """Whether a process was given these arguments; its supervisor has others before them."""
    with contextlib.suppress(psutil.Error):
        command = process.cmdline()
        return command[1:2] == [first] and command[-1] == last
    return False


def stands_by(vivace: Vivace) -> bool:
    """Whether west, whose site was killed, enters at the other one, and the former stands by."""
    (west,) = (each for each in streams(vivace) if each["stream"] == "west")
    return (west["site"], west["standby"], west["stands_by"]) == ("east-site", "west-site", True)


def figured(vivace: Vivace) -> bool:
    """Whether a leader has published figures of all hosts, and of all queries where they run."""
    status = json.loads(ok(vivace, "status", "--json"))
    measured = {each["name"] for each in status["loads"] if each["measured_cores"] is not None}
    return (
        status["figures_age_s"] is not None
        and {each["node"] for each in status["nodes"]} <= measured
        and {each["query"] for each in status["queries"]} == {"pairing", "summing"}
        and {each["fragment"] for each in status["costs"]}
        == {each["fragment"] for each in status["fragments"]}
        and all(each["plan"] is not None for each in status["fragments"])
    )


def streams(vivace: Vivace) -> list[dict[str, Any]]:
    return json.loads(ok(vivace, "status", "--json"))["streams"]


def resumed(vivace: Vivace, before_ms: int, outputs: int = 3) -> bool:
    """Whether all outputs have gone on by three seconds."""
    rows = sinks(vivace)
    return len(rows) == outputs and all((r["watermark_ms"] or 0) > before_ms + 3000 for r in rows)


def sinks(vivace: Vivace) -> list[dict[str, Any]]:
    return json.loads(ok(vivace, "status", "--json"))["outputs"]
