"""Part `site` of benchmark `failover`: a stream's site is killed for which another one stands by.

The workload is that of Vivace's half (`bench.ours_failover`), once replayed from a file and once
out of a topic of Kafka, for which librdkafka's mock cluster stands in. The stream enters at `edge`
or `spare`, and the output leaves at a site of its own. The site that feeds the query is killed,
again and again; the next kill waits until it stands by for the other one.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from bench.cluster import running
from bench.ours_failover import (
    BURST_TUPLES,
    FRAGMENT,
    INTERVAL_MS,
    ROUND_MS,
    ROUND_TUPLES,
    Say,
    faults,
    write_input,
)
from bench.silence import KEYS, STEADY_S, Measurement, longest_silence_ms
from ha.roles import ReplicaRole
from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.view import read_view
from orchestrator.drills.processes import host_process
from orchestrator.edges.sinks import read_back
from orchestrator.errors import VivaceError
from orchestrator.manifest import load
from orchestrator.store.protocol import Store

EXECUTORS = 2
STREAM, TOPIC, PARTITIONS = "numbers", "numbers", 4
PROPERTIES = "site-kafka.properties"
"""A mock broker without messages responds after the longest time that it may wait, half a second by
default, whatever comes meanwhile."""

PADDING = bytes(160)
"""Key of each message, which nobody reads. The mock cluster keeps 5 MiB of a partition and looks
for an offset from the oldest batch on: with only the row in a message, those are so many after two
minutes that sites no longer keep up. This way 5 MiB are some 20 s."""

BACK_S = 60.0
"""How long a site may take to be back."""

NO_ROUNDS_MS = 2**62
"""Length of the only round of a stream that does not repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kill:
    killed_us: int
    over_us: int


def measure_sites(folder: Path, runs: int, say: Say) -> Measurement:
    """Kill the feeding site `runs` times for each kind of source, and measure the silences."""
    manifests = at_two_sites(write_input(folder, EXECUTORS, "exit"))
    file = _series(folder, manifests, runs, say, kafka=False)
    with _topic() as (brokers, begin):
        text = from_kafka(manifests.read_text(), brokers)
        manifests = folder / "site-kafka.yaml"
        manifests.write_text(text)
        (folder / PROPERTIES).write_text(f"fetch.wait.max.ms={INTERVAL_MS}\n")
        kafka = _series(folder, manifests, runs, say, kafka=True, begin=begin.set)
    lost = file.counts["lost"] + kafka.counts["lost"]
    repeated = file.counts["repeated"] + kafka.counts["repeated"]
    return Measurement(
        gaps_ms=[*file.gaps_ms, *kafka.gaps_ms],
        counts={
            "lost": lost,
            "repeated": repeated,
            "file_gap_ms_median": float(np.median(file.gaps_ms)),
            "kafka_gap_ms_median": float(np.median(kafka.gaps_ms)),
        },
    )


def at_two_sites(manifests: Path) -> Path:
    """The manifests of our half with two sites for the stream."""
    text = manifests.read_text()
    text = text.replace("sites: [edge, exit]", "sites: [edge, spare, exit]")
    text = text.replace("site: edge\n", "sites: [edge, spare]\n")
    path = manifests.parent / "site-file.yaml"
    path.write_text(text)
    return path


def from_kafka(text: str, brokers: str) -> str:
    """The manifests with the stream out of a topic."""
    begin, end = text.index("  replay:"), text.index("---\nkind: Query")
    options = [
        "  kafka:",
        f'    brokers: "{brokers}"',
        f"    topic: {TOPIC}",
        f"    propertiesFile: {PROPERTIES}",
        "    timestamp: {column: at, format: ms}",
        f"    partitions: {PARTITIONS}",
        "    idleAfter: off",
        "    maxAhead: off",
    ]
    return text[:begin] + "\n".join(options) + "\n" + text[end:]


def _series(
    folder: Path,
    manifests: Path,
    runs: int,
    say: Say,
    *,
    kafka: bool,
    begin: Callable[[], None] = lambda: None,
) -> Measurement:
    """Kill and measure; `begin` is called when the cluster runs and the query is applied."""
    kind = "kafka" if kafka else "file"

    def progress(step: str, what: str) -> None:
        say(f"site {kind}: {step}: {what}")
        if step == "starting":
            begin()

    with tempfile.TemporaryDirectory(prefix="vivace-bench-") as work:
        with running(load([manifests]), Path(work), progress) as cluster:
            time.sleep(STEADY_S)
            kills: list[_Kill] = []
            for run in range(1, runs + 1):
                say(f"site {kind}: {run} of {runs}")
                kills.append(_kill(cluster.store))
        delivered = read_back(cluster.archive, FRAGMENT)
    rounds = (NO_ROUNDS_MS, 0) if kafka else (ROUND_MS, ROUND_TUPLES)
    found = faults(delivered, *rounds)
    arrivals_s = np.sort(delivered.completed_column("arrived_us")) / 1e6
    return Measurement(
        gaps_ms=[
            longest_silence_ms(arrivals_s, kill.killed_us / 1e6, kill.over_us / 1e6)
            for kill in kills
        ],
        counts={"lost": found.lost, "repeated": found.repeated},
    )


def _kill(store: Store) -> _Kill:
    """Kill the site that feeds the query, and wait until it stands by."""
    view = read_view(store)
    site = view.entering[STREAM].feeding_site
    killed_us = cluster_now_us(view.cluster_clocks)
    host_process(view, site).kill()
    give_up = time.monotonic() + BACK_S
    while not _stands_by(store, site):
        if time.monotonic() > give_up:
            raise VivaceError(f"site {site} does not stand by {BACK_S:.0f} s after it was killed")
        time.sleep(0.2)
    time.sleep(STEADY_S)
    return _Kill(killed_us=killed_us, over_us=cluster_now_us(view.cluster_clocks))


def _stands_by(store: Store, site: str) -> bool:
    view = read_view(store)
    found = view.nodes.get(site)
    status = None if found is None else found.record.sources.get(STREAM)
    feeds_elsewhere = view.entering[STREAM].feeding_site != site
    stands_by = status is not None and status.role is ReplicaRole.STANDBY and not status.lags
    return feeds_elsewhere and stands_by


@contextmanager
def _topic() -> Generator[tuple[str, threading.Event]]:
    """A topic to which numbered tuples are sent, as many as a replay plays, once an event is set.

    A slow machine takes as long to start a cluster as the brokers keep messages, and sites number a
    topic alike only from its first message on.

    Yields
    ------
    tuple
        The brokers, and the event.
    """
    from confluent_kafka import Producer

    from tests.mock_kafka import MockKafka

    cluster = MockKafka()
    cluster.create(TOPIC)
    producer = Producer({"bootstrap.servers": cluster.brokers, "linger.ms": 1})
    begin, ended = threading.Event(), threading.Event()

    def send() -> None:
        begin.wait()
        first, at, due_s = 0, time.time_ns() // 1_000_000, time.monotonic()
        while not ended.wait(max(due_s - time.monotonic(), 0.0)):
            for number in range(first, first + BURST_TUPLES):
                row = {"at": at, "key": number % KEYS, "number": number}
                partition = number % PARTITIONS
                value = msgspec.json.encode(row)
                producer.produce(TOPIC, value, key=PADDING, partition=partition)
            # Each burst has a timestamp of its own, as in the replay.
            first, at = first + BURST_TUPLES, at + INTERVAL_MS
            producer.poll(0)
            due_s += INTERVAL_MS / 1000

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield cluster.brokers, begin
    finally:
        ended.set()
        begin.set()
        thread.join()
