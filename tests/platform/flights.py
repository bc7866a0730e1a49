"""The aircraft example on a rig, with Spark's own executors on Kubernetes, while it plays."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml
from pyarrow import parquet

from examples import fetch
from orchestrator.api import Cluster, apply
from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.control.planning.task import settled
from orchestrator.documents.document import slug
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.sinks import Delivered, read_back
from orchestrator.embedded.java import Java
from orchestrator.embedded.packages import pyspark_folder, source_root
from orchestrator.manifest import Manifests, load
from orchestrator.records import ClocksRecord, ReplicaId
from orchestrator.store.protocol import HistoryEntry, Store
from tests.aircraft_answer import brute_force
from tests.platform.client import PATIENCE_S
from tests.platform.cluster_pods import ClusterPods
from tests.platform.rig import rig
from tests.platform.silences import Silences
from tests.platform.vivace_pods import VivacePods
from tests.round_trip.conftest import Say
from tests.round_trip.kills import await_view

SPEED = 15
"""Of the replay: its three hours last twelve minutes."""

ROUNDS = 4
"""That are played in all tests of a cluster at most."""

ROUND_MS = 10_799_000
"""From a round's beginning to the next one's."""

WAITS = 6
"""Lines of a process that waits, one each ten seconds: a minute."""

OUTPUTS = ("alerts", "alerts_per_minute")

OF_THE_SLOT = ("maintenance", "maintenance over")

FAILOVERS = {"took over", "promoted", "state lost", "maintenance given up"}

SUSPECTED = "silent"
"""Cause of a failover that tells of no host's end: live ones are suspected on a busy machine."""

Turn = tuple[int, int]
"""When a process had the maintenance slot."""


def aircraft(folder: Path) -> tuple[dict[str, Any], Manifests]:
    """The example's cluster in two applications, and its streams, each at both receivers."""
    example = source_root() / "examples" / "aircraft"
    data = str(fetch.DATA)
    cluster = yaml.safe_load((example / "cluster.yaml").read_text())
    cluster |= {"applications": 2, "latencies": f"{data}/latency.csv"}
    streams = (example / "streams.yaml").read_text().replace("../../build/data", data)
    (folder / "streams.yaml").write_text(slowed(streams))
    (folder / "query.yaml").write_text((example / "query.yaml").read_text())
    return cluster, load([folder / "streams.yaml", folder / "query.yaml"])


def slowed(streams: str) -> str:
    """The example's streams, each at both receivers."""
    for old, new in (
        ("speed: 180", f"speed: {SPEED}"),
        ("site: north-receiver", "sites: [north-receiver, south-receiver]"),
        ("site: south-receiver", "sites: [south-receiver, north-receiver]"),
    ):
        assert old in streams
        streams = streams.replace(old, new)
    return streams


def expected_alerts() -> list[tuple[int, str, str]]:
    """All alerts of all rounds."""
    tables = [parquet.read_table(fetch.DATA / f"aircraft-{s}.parquet") for s in fetch.SITES]
    once = pa.concat_tables(tables)
    at, times = once.column_names.index("timestamp"), once.column("timestamp")
    rounds = [once.set_column(at, "timestamp", pc.add(times, ROUND_MS * n)) for n in range(ROUNDS)]
    return brute_force(pa.concat_tables(rounds))[0]


def await_one_life(pods: ClusterPods) -> None:
    """Wait until no pod of a former life is left, and all serve."""
    for name in pods.applications:
        pods.rig.wait(lambda n=name: pods.one_life(n), "executors are ready", 3 * PATIENCE_S)


def failovers(history: Sequence[HistoryEntry]) -> list[str]:
    """Those that a host's end has caused."""
    return [
        f"{each.event.kind} {each.event.subject}: {each.event.detail}"
        for each in history
        if each.event.kind in FAILOVERS and SUSPECTED not in each.event.detail
    ]


def check_turns(history: Sequence[HistoryEntry], owners: Iterable[str]) -> dict[str, Turn]:
    """Fail unless these had the maintenance slot one after the other; when each had it, in µs."""
    turns = [each.event for each in history if each.event.kind in OF_THE_SLOT]
    took = [each.subject for each in turns]
    assert sorted({*took}) == sorted(owners)
    # Each is over before the next one begins: it may leave, may end, and is replaced.
    assert took == [owner for owner in dict.fromkeys(took) for _ in range(3)]
    return {
        owner: (turns[at].at_us, turns[at + 2].at_us)
        for at, owner in enumerate(took)
        if at % 3 == 0
    }


@dataclass(frozen=True, slots=True)
class Flights:
    """The example on the rig, while it plays.

    Attributes
    ----------
    restarts
        Pod → how often it had been started again when all were ready for the first time.
    alerts
        All that are expected, in order.
    """

    pods: ClusterPods
    nodes: list[str]
    bound_ms: float
    restarts: dict[str, int]
    alerts: list[tuple[int, str, str]]
    clocks: ClocksRecord

    @property
    def store(self) -> Store:
        return self.pods.store

    def now_us(self) -> int:
        return cluster_now_us(self.clocks)

    def await_protected(self) -> ClusterView:
        """Wait until every fragment has a warm standby in another application: one that heals after
        a failure may have both replicas in one for a while, whose driver nothing would outlive."""

        def apart() -> ClusterView | None:
            view = await_view(self.store, "protected", *self.nodes)
            return view if _are_apart(view) else None

        return self.pods.rig.wait(apart, "replicas are in two applications")

    def delivered(self) -> dict[str, Delivered]:
        archive = self.pods.archive("control-centre")
        return {stream: read_back(archive, stream) for stream in OUTPUTS}

    def reached_ms(self) -> int:
        """Up to where all outputs have come."""
        with suppress(FileNotFoundError):
            watermarks = [d.completed_column("watermark_ms") for d in self.delivered().values()]
            return min(int(each[-1]) if len(each) else 0 for each in watermarks)
        return 0

    def check(self) -> None:
        """Fail if anything was lost or repeated up to now."""
        self.await_protected()
        await_one_life(self.pods)
        before = self.reached_ms()
        self.pods.rig.wait(lambda: self.reached_ms() > before + 1000 * SPEED, "outputs go on")
        reached, delivered = self.reached_ms(), self.delivered()
        faults = {stream: sequence_faults(each) for stream, each in delivered.items()}
        none = SequenceFaults(lost=0, repeated=0)
        assert set(faults.values()) == {none}, f"{faults}; {failovers(self.store.history())}"
        rows = delivered["alerts"].rows.to_pylist()
        found = sorted((row["_ts"], row["first"], row["second"]) for row in rows)
        assert [row for row in found if row[0] <= reached] == [
            row for row in self.alerts if row[0] <= reached
        ]
        assert not self.pods.rig.access.refused

    @contextmanager
    def measured(self, say: Say) -> Generator[Silences]:
        """Fail if outputs were silent for longer than the recovery bound while processors had
        time, in what is done meanwhile."""
        with closing(Silences(os.getpid(), self.now_us)) as silences:
            yield silences
            self.check()
            found = [*silences.longest(self.delivered())]
        for each in found:
            say("bound", f"{each}")
        assert not [str(each) for each in found if each.exceeds(self.bound_ms)]


def _are_apart(view: ClusterView) -> bool:
    """Whether no fragment has both replicas in one application."""

    def application(replica: ReplicaId) -> str:
        return view.nodes[replica.node].record.labels.application

    pairs = (found.record.replicas for found in view.fragments.values())
    return all(len({application(each) for each in pair}) == 2 for pair in pairs)


@contextmanager
def flights(java: Java, folder: Path) -> Generator[Flights]:
    """All processes but ZooKeeper start at once, ZooKeeper a minute later, and then the example."""
    image = {"SPARK_HOME": str(pyspark_folder()), "JAVA_HOME": str(java.home)}
    with rig(folder / "rig", image=image) as platform:
        cluster, manifests = aircraft(folder)
        pods = VivacePods(platform, java, cluster)
        pods.start()
        alerts = sorted(expected_alerts())
        processes = len(pods.applications) + len(pods.sites) + 1

        def waited() -> bool:
            logs = [platform.log(pod) for pod in platform.pods()]
            return len(logs) == processes and all(
                log.count("waiting for ZooKeeper") >= WAITS for log in logs
            )

        platform.wait(waited, "a minute has passed")
        pods.start_zookeeper()
        platform.wait(lambda: platform.ready(app="zookeeper"), "ZooKeeper is ready")
        with closing(pods):
            store = pods.store
            for app in ("coordinator", *pods.sites, *pods.applications):
                platform.wait(lambda app=app: platform.ready(app=app), app, 2 * PATIENCE_S)
            await_one_life(pods)
            nodes = sorted(slug(node) for node in cluster["nodes"])
            (query,) = manifests.queries
            bound_ms = query.record.recovery_bound_ms
            clocks = read_view(store).cluster_clocks
            playing = Flights(pods, nodes, bound_ms, pods.restarts(), alerts, clocks)
            platform.wait(lambda: settled(read_view(store).hosts), "coordinates have settled")
            apply(Cluster(pods.config(), store), manifests)
            playing.await_protected()
            platform.wait(lambda: playing.reached_ms() > 0, "outputs flow")
            yield playing
