"""What clients send at one of two sites goes on at the other one, where the first stays away."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import vivace
from bench.cluster import running
from orchestrator.control.view import read_view
from orchestrator.deploy.embedded.ports import free_port
from orchestrator.drills.processes import host_process, suspended
from orchestrator.manifest import load
from orchestrator.sinks import read_back
from orchestrator.store.protocol import Store
from tests.conftest import PATIENCE_S, WaitUntil
from tests.round_trip.conftest import Say
from tests.round_trip.kills import kill_executor

pytestmark = [
    pytest.mark.round_trip,
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

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


class Client:
    """Sends batches of four readings, each when it has the response to the one before."""

    def __init__(self, address: str) -> None:
        self.sent = 0
        self.error: Exception | None = None
        self._stream = vivace.connect(address, patience_s=PATIENCE_S).stream("readings")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Send no more; raise what went wrong."""
        self._ended.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        at_ms = 0
        try:
            while not self._ended.wait(0.02):
                number = 4 * self.sent
                # An idle stream goes with the clock, and what lags behind it is late.
                at_ms = max(at_ms + 1, time.time_ns() // 1_000_000)
                rows = {"at": [at_ms] * 4, "number": list(range(number, number + 4))}
                assert self._stream.send(rows).late == 0
                self.sent += 1
        except Exception as error:  # noqa: BLE001  The test raises it.
            self.error = error


@contextmanager
def away(store: Store, site: str) -> Generator[None]:
    """Kill a site's host, and have nobody start another one meanwhile."""
    process = host_process(read_view(store), site)
    supervisor = process.parent()
    assert supervisor is not None
    with suspended(supervisor):
        process.kill()
        yield


def test_what_was_acknowledged_arrives_once_although_its_site_stays_away(
    tmp_path: Path, dice: random.Random, say: Say, wait_until: WaitUntil
) -> None:
    port = free_port()
    manifests = tmp_path / "two-sites.yaml"
    manifests.write_text(MANIFESTS.format(port=port))
    with running(load([manifests]), tmp_path / "work", say) as cluster:
        client = Client(f"http://127.0.0.1:{port}")

        def goes_on() -> None:
            before = client.sent
            wait_until(lambda: client.error is not None or client.sent > before + 10)

        goes_on()
        for site, other in (("here", "there"), ("there", "here")):
            time.sleep(dice.uniform(0.0, 1.0))
            say("away", site)
            with away(cluster.store, site):
                wait_until(
                    lambda other=other: (
                        read_view(cluster.store).stream_records["readings"].feeding_site == other
                    )
                )
                goes_on()
                kill_executor(cluster.store, dice.choice(["one", "two", "three"]))
                goes_on()
            wait_until(lambda site=site: site in read_view(cluster.store).nodes)
            goes_on()
        client.end()
        say("sent", f"{client.sent} batches")
        # Readings that were idle long enough are complete.
        wait_until(lambda: len(kept(tmp_path)) >= 4 * client.sent)
    assert kept(tmp_path) == list(range(4 * client.sent))


def kept(folder: Path) -> list[int]:
    """What the archive has."""
    return read_back(folder / "work" / "archive", "entered").rows["number"].to_pylist()
