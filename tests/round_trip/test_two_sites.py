"""What clients send at one of two sites goes on at the other one, where the first stays away."""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import vivace
from bench.cluster import running
from orchestrator.control.observe.view import read_view
from orchestrator.drills.processes import host_process
from orchestrator.edges.sinks import read_back
from orchestrator.embedded.ports import free_port
from orchestrator.embedded.process_faults import STOPPED, imposed
from orchestrator.manifest import load
from orchestrator.store.protocol import Store
from tests.conftest import WaitUntil
from tests.round_trip.client import Client
from tests.round_trip.conftest import Say
from tests.round_trip.kills import kill_executor

pytestmark = [
    pytest.mark.round_trip,
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

AWAY_S = 3600.0
"""No site is away for longer."""

BATCHES = 10
"""That show that the client goes on."""

MANIFESTS = """\
kind: Cluster
name: two-sites
nodes: [one, two, three]
sites: [here, there, exit]
executorMemory: 512m
---
kind: Stream
name: readings
sites: [here, there]
columns: {{number: int}}
rate: 10 KB/s
from:
  http:
    listen: {port}
    timestamp: {{column: at, format: ms}}
    idleAfter: 200 ms
    maxAhead: off
    durable: replicas
---
kind: Query
name: all
deadline: 5 s
recovery: 1 s
outputs: {{entered: exit}}
statements: |
  REGISTER QUERY entered RSTREAM(SELECT number FROM readings [NOW]);
"""


def send(readings: vivace.Stream, batch: int) -> None:
    """Send four readings of the present, the first batch's from 0 to 3, and so on."""
    # An idle stream goes with the clock, and what lags behind it is late.
    at_ms = time.time_ns() // 1_000_000
    rows = {"at": [at_ms] * 4, "number": list(range(4 * batch, 4 * batch + 4))}
    assert readings.send(rows).late == 0


@contextmanager
def away(store: Store, site: str) -> Generator[None]:
    """Kill a site's host, and have nobody start another one meanwhile."""
    process = host_process(read_view(store), site)
    supervisor = process.parent()
    assert supervisor is not None
    with imposed(STOPPED, [supervisor], AWAY_S):
        process.kill()
        yield


def test_what_was_acknowledged_arrives_once_although_its_site_stays_away(
    tmp_path: Path, dice: random.Random, say: Say, wait_until: WaitUntil
) -> None:
    port = free_port()
    manifests = tmp_path / "two-sites.yaml"
    manifests.write_text(MANIFESTS.format(port=port))
    with running(load([manifests]), tmp_path / "work", say) as cluster:
        client = Client(f"http://127.0.0.1:{port}", "readings", send)
        client.goes_on(wait_until, BATCHES)
        for site, other in (("here", "there"), ("there", "here")):
            time.sleep(dice.uniform(0.0, 1.0))
            say("away", site)
            with away(cluster.store, site):
                wait_until(
                    lambda other=other: (
                        read_view(cluster.store).entering["readings"].feeding_site == other
                    )
                )
                client.goes_on(wait_until, BATCHES)
                kill_executor(cluster.store, dice.choice(["one", "two", "three"]))
                client.goes_on(wait_until, BATCHES)
            wait_until(lambda site=site: site in read_view(cluster.store).nodes)
            client.goes_on(wait_until, BATCHES)
        client.end()
        say("sent", f"{client.sent} batches")
        # Readings that were idle long enough are complete.
        wait_until(lambda: len(kept(tmp_path)) >= 4 * client.sent)
    assert kept(tmp_path) == list(range(4 * client.sent))


def kept(folder: Path) -> list[int]:
    """What the archive has."""
    return read_back(folder / "work" / "archive", "entered").rows["number"].to_pylist()
