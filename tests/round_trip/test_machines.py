"""A cluster on two machines, over Spark standalone: one of them is cut off, and then lost; drills
strike what runs on it, from the other one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from bench.cluster import await_end
from orchestrator.api import Cluster, apply, drill
from orchestrator.control.observe.view import read_view
from orchestrator.control.planning.task import settled
from orchestrator.deploy.config import read_config
from orchestrator.edges.sinks import read_back
from orchestrator.embedded.java import Java
from orchestrator.errors import VivaceError
from orchestrator.manifest import load
from orchestrator.records import FragmentRecord
from orchestrator.store.protocol import NODES, Store
from tests.conftest import WaitUntil
from tests.round_trip.conftest import Say
from tests.round_trip.kills import await_view, kill_executor, relies_on
from tests.round_trip.machines import MASTER, Machine, two_machines

pytestmark = [
    pytest.mark.round_trip,
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

EXECUTORS = ("one", "two", "three", "four")
KEYS, EVERY_MS, LENGTH_S = 5, 20, 150
CUT_S = 12.0
"""Longer than a session of ZooKeeper lasts: what the machine ran is replaced meanwhile."""

CLUSTER = """\
kind: Cluster
name: machines
nodes: [one, two, three, four]
sites: [source, sink]
executorMemory: 512m
"""

QUERY = """\
kind: Stream
name: numbers
site: source
columns: {{key: int, number: int}}
rate: 2 KB/s
from:
  replay:
    path: {path}
    begin: "1970-01-01T00:00:00.001Z"
    end: "{end}"
    interval: 100 ms
    repeat: {repeat}
---
kind: Query
name: sums
deadline: 5 s
recovery: 1 s
outputs: {{totals: sink}}
statements: |
  REGISTER QUERY totals RSTREAM(
    SELECT key, count(*) AS n, sum(number) AS total
    FROM numbers [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY key);
"""

CONFIG = """\
manifest: cluster.yaml
zookeeper: {zookeeper}
secretFile: secret
bind: 0.0.0.0
sparkMaster: {master}
grace: 0
"""


@pytest.fixture
def machines(tmp_path: Path, java: Java) -> Iterator[tuple[Machine, Machine]]:
    with two_machines(tmp_path, java) as both:
        yield both


def recorded(length_s: int) -> list[tuple[int, int, int]]:
    """Timestamp, key and number of each tuple."""
    return [(EVERY_MS * (i + 1), i * i % KEYS, i) for i in range(1000 * length_s // EVERY_MS)]


def expected(length_s: int = LENGTH_S) -> list[tuple[int, int, int, int]]:
    """Timestamp, key, how many and their sum."""
    counted, summed = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for ts, key, number in recorded(length_s):
        place = (-(-ts // 1000) * 1000, key)
        counted[place] += 1
        summed[place] += number
    return sorted((*place, counted[place], summed[place]) for place in counted)


def start(
    folder: Path, first: Machine, second: Machine, wait_until: WaitUntil, applications: int = 1
) -> Store:
    """Start all processes: of each machine a worker; all others on the first."""
    master = f"spark://{first.address}:7077"
    (folder / "cluster.yaml").write_text(f"{CLUSTER}applications: {applications}\n")
    (folder / "secret").write_text("known to both machines")
    config = folder / "vivace.yaml"
    config.write_text(CONFIG.format(zookeeper=first.zookeeper(), master=master))
    first.spark(MASTER, "--port", "7077")
    for machine in (first, second):
        machine.worker(master)
    # Spark spreads executors over the workers that it has.
    wait_until(lambda: first.works and second.works and _opens(config))
    first.python("deploy.coordinator", config)
    for site in ("source", "sink"):
        first.python("deploy.site", config, VIVACE_SITE=site, VIVACE_ARCHIVE=str(folder / site))
    for name in [f"application-{number}" for number in range(1, applications + 1)]:
        own = {"VIVACE_APPLICATION": name} if applications > 1 else {}
        first.python("deploy.host_pool", config, VIVACE_WORK=str(folder / name), **own)
    return read_config(config, {}).open_store()


def write_query(folder: Path, *, repeat: bool, length_s: int = LENGTH_S) -> None:
    """Write the recording, and the manifests of its stream and query."""
    timestamps, keys, numbers = zip(*recorded(length_s), strict=True)
    table = pa.Table.from_pydict({"timestamp": timestamps, "key": keys, "number": numbers})
    parquet.write_table(table, folder / "numbers.parquet")
    end = f"1970-01-01T00:{length_s // 60:02}:{length_s % 60:02}Z"
    query = QUERY.format(path="numbers.parquet", end=end, repeat=str(repeat).lower())
    (folder / "query.yaml").write_text(query)


def check_rows(archive: Path, wanted: list[tuple[int, int, int, int]]) -> None:
    """Nothing was lost, repeated or computed otherwise."""
    rows = read_back(archive, "totals").rows.to_pylist()
    assert sorted(row["_seq"] for row in rows) == list(range(len(rows)))
    assert sorted((row["_ts"], row["key"], row["n"], row["total"]) for row in rows) == wanted


def _opens(config: Path) -> bool:
    try:
        read_config(config, {}).open_store().close()
    except VivaceError:
        return False
    return True


def machines_of(store: Store, *names: str) -> dict[str, str]:
    """Node or site → the machine that it is on, of those that are there."""
    return {
        name: found.record.labels.machine
        for name, found in store.list(NODES).records.items()
        if name in names
    }


def are_apart(store: Store, *kinds: str) -> bool:
    """Whether each fragment has a primary and a warm secondary that share no label of these."""
    view = read_view(store)

    def apart(record: FragmentRecord) -> bool:
        there = [view.nodes[r.node].record.labels for r in record.replicas if r.node in view.nodes]
        return all(len({getattr(labels, kind) for labels in there}) == 2 for kind in kinds)

    return all(
        view.settled(found.record) and apart(found.record) for found in view.fragments.values()
    )


def test_nothing_is_lost_when_a_machine_is_cut_off_and_then_lost(
    machines: tuple[Machine, Machine], tmp_path: Path, say: Say, wait_until: WaitUntil
) -> None:
    first, second = machines
    write_query(tmp_path, repeat=False)
    with closing(start(tmp_path, first, second, wait_until)) as store:
        wait_until(lambda: len(machines_of(store, *EXECUTORS)) == len(EXECUTORS))
        spread = machines_of(store, *EXECUTORS)
        say("nodes", str(spread))
        wait_until(lambda: settled(read_view(store).hosts))
        manifests = load([tmp_path / "query.yaml"])
        config = read_config(tmp_path / "vivace.yaml", {})
        apply(Cluster(config, store), manifests, on_progress=say)
        if second.namespace is not None:
            assert len({*spread.values()}) == 2
            assert are_apart(store, "machine")
            say("cut off", second.name)
            second.cut()
            time.sleep(CUT_S)
            second.join()
            await_view(store, "protected", *EXECUTORS)
        for node in EXECUTORS[:2]:
            say("killed", node)
            kill_executor(store, node)
        await_view(store, "protected", *EXECUTORS)
        if second.namespace is not None:
            # With two of four hosts dead, both replicas may have come to lie on this machine.
            wait_until(lambda: are_apart(store, "machine"))
        say("lost", second.name)
        second.kill()
        # Spark starts the executors of the lost machine on the other one.
        everything = (*EXECUTORS, "source", "sink")
        wait_until(lambda: len({*machines_of(store, *everything).values()}) == 1)
        await_view(store, "protected", *EXECUTORS)
        await_end(store, manifests, say)
    first.end()
    check_rows(tmp_path / "sink", expected())


@pytest.mark.platform
def test_with_two_applications_nothing_is_lost_with_a_driver_and_then_a_machine(
    machines: tuple[Machine, Machine], tmp_path: Path, say: Say, wait_until: WaitUntil
) -> None:
    first, second = machines
    if second.namespace is None:
        pytest.skip("no namespaces can be made: takes root")
    write_query(tmp_path, repeat=False)
    with closing(start(tmp_path, first, second, wait_until, applications=2)) as store:
        wait_until(lambda: len(machines_of(store, *EXECUTORS)) == len(EXECUTORS))
        wait_until(lambda: settled(read_view(store).hosts))
        manifests = load([tmp_path / "query.yaml"])
        apply(Cluster(read_config(tmp_path / "vivace.yaml", {}), store), manifests, on_progress=say)
        wait_until(lambda: are_apart(store, "machine", "application"))
        view = read_view(store)
        killed = [
            found.record.incarnation
            for found in view.nodes.values()
            if found.record.labels.application == "application-1"
        ]
        assert len(killed) == 2
        say("killed", "the driver of application-1")
        first.crash("VIVACE_APPLICATION", "application-1")
        wait_until(lambda: not any(relies_on(read_view(store), each) for each in killed))
        await_view(store, "protected", *EXECUTORS)
        wait_until(lambda: are_apart(store, "machine", "application"))
        say("lost", second.name)
        second.kill()
        everything = (*EXECUTORS, "source", "sink")
        wait_until(lambda: len({*machines_of(store, *everything).values()}) == 1)
        await_view(store, "protected", *EXECUTORS)
        wait_until(lambda: are_apart(store, "application"))
        await_end(store, manifests, say)
    first.end()
    check_rows(tmp_path / "sink", expected())


DRILLS = ("hang", "slow-node", "kill-executor")


def test_drills_strike_what_runs_on_another_machine(
    machines: tuple[Machine, Machine], tmp_path: Path, say: Say, wait_until: WaitUntil
) -> None:
    """It is told by records only, and connects to who watches the outputs."""
    first, second = machines
    write_query(tmp_path, repeat=True)
    with closing(start(tmp_path, first, second, wait_until)) as store:
        wait_until(lambda: len(machines_of(store, *EXECUTORS)) == len(EXECUTORS))
        wait_until(lambda: settled(read_view(store).hosts))
        cluster = Cluster(read_config(tmp_path / "vivace.yaml", {}), store)
        apply(cluster, load([tmp_path / "query.yaml"]), on_progress=say)
        for name in DRILLS:
            await_view(store, "protected", *EXECUTORS)
            there = machines_of(store, *EXECUTORS)
            node = next((n for n in EXECUTORS if there[n] == second.name), EXECUTORS[0])
            # A node without a primary is struck, too.
            report = drill(cluster, name, node, say)
            say(name, f"{report.killed_node}: {report.failures or 'passed'}")
            assert (report.lost, report.repeated, report.differing) == (0, 0, 0)
    first.end()
