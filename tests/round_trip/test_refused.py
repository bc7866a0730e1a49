"""What a stream refuses is a stream of its own, through a cluster of which processes are killed."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

import vivace
from bench.cluster import running
from orchestrator.control.observe.view import read_view
from orchestrator.edges.sinks import read_back
from orchestrator.embedded.ports import free_port
from orchestrator.manifest import load
from tests.conftest import PATIENCE_S, WaitUntil
from tests.round_trip.client import Client
from tests.round_trip.conftest import Say
from tests.round_trip.kills import kill_executor, kill_site

pytestmark = [
    pytest.mark.round_trip,
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

KILLED = ("here", "one", "here", "exit", "here")
BASE_MS = 1_700_000_000_000
LATE_MS = 5_000
AHEAD_MS = 4_000_000_000_000
"""Beyond all clocks."""

UNREADABLE = 20

MANIFESTS = """\
kind: Cluster
name: refused
nodes: [one, two, three]
sites: [here, exit]
executorMemory: 512m
---
kind: Stream
name: readings
site: here
columns: {{number: int}}
rate: 10 KB/s
from:
  http:
    listen: {port}
    timestamp: {{column: at, format: ms}}
    idleAfter: off
    late: true
    rejected: true
---
kind: Query
name: all
deadline: 5 s
recovery: 1 s
outputs: {{entered: exit, tardy: exit, refusals: exit}}
statements: |
  REGISTER QUERY entered RSTREAM(SELECT number FROM readings [NOW]);
  REGISTER QUERY tardy RSTREAM(SELECT number, event_time FROM readings.late [NOW]);
  REGISTER QUERY refusals RSTREAM(SELECT kind, what FROM readings.rejected [NOW]);
"""


def send(readings: vivace.Stream, batch: int) -> None:
    """Send two readings in order, one that is late, and one that is far ahead."""
    at, number = BASE_MS + 1000 * (batch + 1), 4 * batch
    stamps = [at, at + 500, at - LATE_MS, AHEAD_MS + number]
    readings.send({"at": stamps, "number": list(range(number, number + 4))})


def test_late_and_rejected_tuples_arrive_once_whichever_processes_are_killed(
    tmp_path: Path, dice: random.Random, say: Say, wait_until: WaitUntil
) -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    manifests = tmp_path / "refused.yaml"
    manifests.write_text(MANIFESTS.format(port=port))
    with running(load([manifests]), tmp_path / "work", say) as cluster:

        def arrived(stream: str) -> int:
            sink = read_view(cluster.store).hosts.get("exit")
            return 0 if sink is None or stream not in sink.sinks else sink.sinks[stream].rows

        stream = vivace.site(address, patience_s=PATIENCE_S).stream("readings")
        for number in range(UNREADABLE):
            with pytest.raises(vivace.Refused):
                stream.send_body(f"nonsense {number}".encode(), "application/x-ndjson")
        # What cannot be read is not waited for, so it must be there before anything is killed.
        wait_until(lambda: arrived("refusals") == UNREADABLE)
        # Something must be complete, that others can be late.
        stream.send({"at": [BASE_MS], "number": [-1]})
        client = Client(address, "readings", send)
        for kill in KILLED:
            client.goes_on(wait_until, 20)
            time.sleep(dice.uniform(0.0, 1.0))
            say("killed", kill)
            (kill_executor if kill in ("one", "two") else kill_site)(cluster.store, kill)
        client.end()
        # The newest timestamp stays open.
        wanted = {
            "entered": 2 * client.sent,
            "tardy": client.sent,
            "refusals": UNREADABLE + client.sent,
        }
        say("wanted", str(wanted))
        wait_until(lambda: all(len(kept(tmp_path, name)) >= n for name, n in wanted.items()))
    numbers = range(4 * client.sent)
    entered = [row["number"] for row in kept(tmp_path, "entered")]
    assert entered == [-1, *(n for n in numbers if n % 4 < 2)][:-1]
    tardy = [(row["number"], row["event_time"]) for row in kept(tmp_path, "tardy")]
    assert tardy == [(n, BASE_MS + 1000 * (n // 4 + 1) - LATE_MS) for n in numbers if n % 4 == 2]
    refusals = kept(tmp_path, "refusals")
    whats = [json.loads(row["what"]) for row in refusals if row["kind"] == "ahead"]
    assert [what["number"] for what in whats] == [n for n in numbers if n % 4 == 3]
    assert sum(row["kind"] == "malformed" for row in refusals) == UNREADABLE


def kept(folder: Path, stream: str) -> list[dict[str, Any]]:
    """What the archive has of a stream."""
    return read_back(folder / "work" / "archive", stream).rows.to_pylist()
