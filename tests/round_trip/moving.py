"""A cluster whose links change while queries run: what it runs, what that must result in, and how
much its hosts send each other, by the counters of their TCP connections.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from orchestrator.clock import now_us
from orchestrator.control.decide.drill_records import LONGEST_LINK_FAULT_US
from orchestrator.deploy.context import find
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.sinks import Delivered
from orchestrator.records import ClusterRecord, DisturbedLink, NodeRecord
from orchestrator.store.protocol import CLUSTER, LEADER, LINKS, Store
from orchestrator.store.protocol import NODES as HOSTS
from orchestrator.store.zookeeper import ZooKeeperStore
from tests.functional.conftest import Vivace, vivace_at
from vivace.cluster import ClusterClient, connect

NUMBER = "REBALANCING_NODES"
"""Variable with the number of nodes, if a machine is too slow for six."""

NODES = tuple(f"n{number + 1}" for number in range(int(os.environ.get(NUMBER) or 6)))
NEAR = NODES[: len(NODES) // 2]
SITES = ("west", "desk")
NEAR_MS, FAR_MS = 12, 20
"""Round trips of the first half of the nodes to the sites, and of the others."""

QUERIES = 6
EVERY_MS = 4
KEYS = 10
NOTE_EVERY_MS, NOTE_BYTES, ASKED_EVERY_MS = 25, 8000, 100
"""Notes are so large that what else hosts tell each other is a small share of what they send."""

ASKED_AGO_MS = 30_000
"""How old a note is that is asked for."""

BEGIN_MS = 1_700_000_000_000
MINUTE_MS = 60_000
INTERVAL_MS = 500

OUTPUTS = (*(f"sums_{number}" for number in range(QUERIES)), "recalled")

CLUSTER_MANIFEST = f"""\
kind: Cluster
name: moving
nodes: [{", ".join(f"{{name: {each}, region: {each}}}" for each in NODES)}]
sites: [{", ".join(f"{{name: {each}, region: {each}}}" for each in SITES)}]
latencies: latency.csv
coordinators: 2
admission: off
suspectAfter: 800 ms
"""
"""Hosts of a busy machine are silent for longer than the default, and nothing is to move by itself
while traffic is counted."""

STREAM = """\
kind: Stream
name: {name}
site: west
columns: {columns}
rate: {rate} KB/s
from:
  replay:
    path: {path}.parquet
    begin: "2023-11-14T22:13:20Z"
    end: "2023-11-14T22:14:19.5Z"
    interval: {interval} ms
    repeat: true
"""

QUERY = """\
kind: Query
name: {name}
deadline: 3 s
recovery: 2 s
outputs: {{{output}: desk}}
estimates: {{{estimates}}}
statements: |
{statements}"""

SUMS = """\
  REGISTER QUERY kept_{number} RSTREAM(
    SELECT key, number FROM in_{number} [NOW] WHERE key <> {number});
  REGISTER QUERY sums_{number} RSTREAM(
    SELECT key, count(*) AS n, sum(number) AS total
    FROM kept_{number} [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY key);
"""

RECALLED = """\
  REGISTER QUERY recalled RSTREAM(
    SELECT a.number AS number, n.text AS text
    FROM asked [NOW] AS a, notes [RANGE 60 SECONDS] AS n WHERE a.number = n.number);
"""
"""Its state is a minute of notes: large enough that its way over a throttled link takes seconds."""


SUMS_COSTS = (
    "kept_{number}: {{cost: 5 us, selectivity: 0.9}}, "
    "sums_{number}: {{cost: 5 us, selectivity: 0.02}}"
)
RECALLED_COSTS = "recalled: {cost: 50 us, selectivity: 0.2}"


def write(folder: Path) -> tuple[Path, Path]:
    """The manifests of the cluster, and those of what it runs, with recordings of a minute."""
    times = range(0, MINUTE_MS - INTERVAL_MS, EVERY_MS)
    _record(folder, "readings", times, key=[_key(at) for at in times], number=[*times])
    times = range(0, MINUTE_MS - INTERVAL_MS, NOTE_EVERY_MS)
    _record(folder, "notes", times, number=[*times], text=[_text(at) for at in times])
    times = range(0, MINUTE_MS - INTERVAL_MS, ASKED_EVERY_MS)
    _record(folder, "asked", times, number=[_asked(at) for at in times])
    places = [*NODES, *SITES]
    rows = [["", *places]]
    rows += [[a, *("" if a == b else f"{_rtt_ms(a, b)}" for b in places)] for a in places]
    (folder / "latency.csv").write_text("".join(f"{','.join(row)}\n" for row in rows))
    readings, notes = "{key: int, number: int}", "{number: int, text: string}"
    documents = [
        STREAM.format(name=name, path=path, columns=columns, rate=rate, interval=INTERVAL_MS)
        for name, path, columns, rate in (
            *((f"in_{each}", "readings", readings, 16 * 1000 // EVERY_MS / 1000)
              for each in range(QUERIES)),
            ("notes", "notes", notes, NOTE_BYTES / NOTE_EVERY_MS),
            ("asked", "asked", "{number: int}", 0.1),
        )
    ]  # fmt: skip
    documents += [
        QUERY.format(name=name, output=output, estimates=estimates, statements=statements)
        for name, output, estimates, statements in (
            *((f"summing-{n}", f"sums_{n}", SUMS_COSTS.format(number=n), SUMS.format(number=n))
              for n in range(QUERIES)),
            ("recalling", "recalled", RECALLED_COSTS, RECALLED),
        )
    ]  # fmt: skip
    cluster, queries = folder / "cluster.yaml", folder / "queries.yaml"
    cluster.write_text(CLUSTER_MANIFEST)
    queries.write_text("---\n".join(documents))
    return cluster, queries


def _record(folder: Path, name: str, times: Sequence[int], **columns: list[Any]) -> None:
    table = pa.table({"timestamp": [BEGIN_MS + at for at in times], **columns})
    parquet.write_table(table, folder / f"{name}.parquet")


def _rtt_ms(here: str, there: str) -> int:
    """Two groups of nodes; the first is nearer to the sites."""
    if here in NODES and there in NODES:
        return NEAR_MS if (here in NEAR) == (there in NEAR) else FAR_MS
    return NEAR_MS if {here, there} <= {*NEAR, *SITES} else FAR_MS


def _key(at: int) -> int:
    return at // EVERY_MS * 7919 % KEYS


def _text(number: int) -> str:
    return f"{random.Random(number).getrandbits(4 * NOTE_BYTES):0{NOTE_BYTES}x}"


def _asked(at: int) -> int:
    return (at - ASKED_AGO_MS) % MINUTE_MS // NOTE_EVERY_MS * NOTE_EVERY_MS


def check_exact(output: str, kept: Delivered) -> None:
    """Assert that an output has exactly its rows, each once."""
    assert sequence_faults(kept) == SequenceFaults(lost=0, repeated=0), output
    found: defaultdict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for row in kept.rows.to_pylist():
        found[row["_ts"] - BEGIN_MS].append(
            tuple(value for name, value in row.items() if not name.startswith("_"))
        )
    if output == "recalled":
        # In the first minute some notes are asked for that nobody has written yet.
        first_ms, every_ms, expected = MINUTE_MS, ASKED_EVERY_MS, _recalled()
    else:
        first_ms, every_ms, expected = 1000, 1000, _sums(int(output.rpartition("_")[2]))
    assert max(found) > 2 * MINUTE_MS, output
    for at_ms in range(first_ms, max(found) + 1, every_ms):
        assert sorted(found[at_ms]) == expected[at_ms % MINUTE_MS], (output, at_ms)
    assert all(at_ms % every_ms == 0 for at_ms in found), output


def _sums(number: int) -> dict[int, list[tuple[Any, ...]]]:
    """Time within the minute → results, of each second."""
    counted, summed = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for at in range(0, MINUTE_MS - INTERVAL_MS, EVERY_MS):
        if (key := _key(at)) != number:
            place = -(-at // 1000) * 1000 % MINUTE_MS, key
            counted[place] += 1
            summed[place] += at
    found: defaultdict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for (second, key), n in sorted(counted.items()):
        found[second].append((key, n, summed[second, key]))
    return found


def _recalled() -> dict[int, list[tuple[Any, ...]]]:
    """Time within the minute → notes that are asked for then."""
    found: defaultdict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for at in range(0, MINUTE_MS - INTERVAL_MS, ASKED_EVERY_MS):
        if (number := _asked(at)) < MINUTE_MS - INTERVAL_MS:
            found[at].append((number, _text(number)))
    return found


@dataclass(frozen=True, slots=True)
class MovingCluster:
    """The cluster, with everything applied."""

    vivace: Vivace
    client: ClusterClient
    store: Store
    archive: Path

    def ok(self, *words: object) -> str:
        """What `vivace` prints, which succeeds."""
        done = self.vivace(*words)
        assert done.returncode == 0, f"vivace {words}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def asked(self, *words: object) -> Any:
        """The document that a verb gives."""
        return json.loads(self.ok(*words, "-o", "json"))

    def hosts(self) -> dict[str, NodeRecord]:
        """What hosts report, by name."""
        return {name: found.record for name, found in self.store.list(HOSTS).records.items()}

    def places(self) -> dict[str, tuple[str, str | None]]:
        """Query and fragment → nodes of primary and secondary."""
        return {e.name: (e.primary, e.secondary) for e in self.client.status().fragments}

    def kill_leader(self) -> str:
        """Kill the coordinator that leads; its name as a candidate."""
        found = self.store.get(LEADER)
        assert found is not None
        candidate = found.record.candidate
        os.kill(int(candidate.split("-")[-2]), signal.SIGKILL)
        return candidate

    def slow_down(self, nodes: Iterable[str], delay_ms: float) -> list[DisturbedLink]:
        """Have the links between nodes and sites take longer, as drills do."""
        until_us = now_us() + LONGEST_LINK_FAULT_US - 1_000_000
        links = [
            DisturbedLink(source=source, target=target, until_us=until_us, delay_ms=delay_ms)
            for node in nodes
            for site in SITES
            for source, target in ((node, site), (site, node))
        ]
        for link in links:
            self.store.create(LINKS.key(link.name), link)
        return links

    def settings(self) -> ClusterRecord:
        """The cluster's, with the delays of its links."""
        found = self.store.get(CLUSTER)
        assert found is not None
        return found.record

    def late(self) -> Late:
        """What has come late until now."""
        outputs = self.client.status().outputs
        return Late(
            sum(each.deadline_misses for each in outputs),
            sum(each.completed_timestamps for each in outputs),
        )

    def traffic(self) -> Traffic:
        """What hosts have sent each other until now."""
        return traffic({host.pid: name for name, host in self.hosts().items()})


class Late(NamedTuple):
    """Timestamps whose results came after the deadline, of those that are complete."""

    late: int
    complete: int

    def since(self, before: Late) -> Late:
        """What has come since another moment."""
        return Late(self.late - before.late, self.complete - before.complete)

    @property
    def pct(self) -> float:
        """Their share, %."""
        return 100 * self.late / max(self.complete, 1)

    def __str__(self) -> str:
        return f"{self.late} of {self.complete} late, {self.pct:.2f} %"


@contextmanager
def running(folder: Path) -> Generator[MovingCluster]:
    """Start the cluster, and apply everything."""
    vivace, archive = vivace_at(folder / "home"), folder / "data" / "archive"
    cluster, queries = write(folder)
    try:
        for words in (("up", "-f", cluster, "--data", folder / "data"), ("apply", "-f", queries)):
            done = vivace(*words)
            assert done.returncode == 0, done.stdout + done.stderr
        context = find(None, folder / "home")
        store = ZooKeeperStore(context.zookeeper, context.cluster, context.secret)
        with closing(store):
            client = connect(context.api, context.token)
            yield MovingCluster(vivace, client, store, archive)
    finally:
        vivace("down")


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that each host has sent to each other one until a moment."""

    at_s: float
    sent: Mapping[tuple[str, str], int]

    def since(self, before: Traffic) -> dict[tuple[str, str], float]:
        """Bytes a second since another moment."""
        seconds = self.at_s - before.at_s
        return {
            link: (sent - before.sent.get(link, 0)) / seconds for link, sent in self.sent.items()
        }


def traffic(hosts: Mapping[int, str]) -> Traffic:
    """What the connections of hosts, by process, have counted."""
    found = subprocess.run(["ss", "-tinpHO"], capture_output=True, text=True, check=True).stdout
    owners: dict[str, tuple[str, str, int]] = {}
    # A socket for both families shows its peers of IPv4 as those of IPv6.
    for line in found.replace("[::ffff:127.0.0.1]", "127.0.0.1").splitlines():
        pids = {int(pid) for pid in re.findall(r"pid=(\d+)", line)} & hosts.keys()
        sent = re.search(r"bytes_sent:(\d+)", line)
        if pids and sent:
            _, _, _, here, there, *_ = line.split()
            owners[here] = hosts[min(pids)], there, int(sent[1])
    total: Counter[tuple[str, str]] = Counter()
    for host, there, sent in owners.values():
        if there in owners and owners[there][0] != host:
            total[host, owners[there][0]] += sent
    return Traffic(time.monotonic(), total)


def usage_bytes(
    rates: Mapping[tuple[str, str], float], settings: ClusterRecord, links: Iterable[DisturbedLink]
) -> float:
    """Network usage: what hosts send a second, times what the way takes, over all links."""
    added = {(each.source, each.target): each.delay_ms or 0.0 for each in links}
    return sum(
        bytes_s * (settings.delays_ms[link[0]][link[1]] + added.get(link, 0.0)) / 1e3
        for link, bytes_s in rates.items()
    )
