"""Benchmark `periodic`: releases of periodic queries that are late, at what admission admits.

Queries of one periodic statement each run on one node, with emulated costs: a burst of `TUPLES`
takes each of them `BURST_MS`. They are admitted one after the other until one is refused.

`simulated` and `real` (on executors) measure the late releases of those that are admitted.
`order` has queries with two deadlines, whose releases coincide, under `scheduling: edf` and under
`ertf`, the order of pushdown aggregates, §7.1.2, which ignores deadlines; nothing is refused there.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench.processor_waits import ProcessorWaits
from bench.registry import Settings, benchmark
from orchestrator.api import Cluster, apply
from orchestrator.clock import now_us
from orchestrator.control.decide.admission import admit
from orchestrator.control.observe.view import read_view
from orchestrator.deploy.local.cluster import LocalCluster
from orchestrator.edges.sinks import read_back
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.edges.sources.replay import RECORDED_TIMESTAMP
from orchestrator.errors import Refused
from orchestrator.manifest import Manifests, load
from orchestrator.simulation.world.scenario import SETTLE_S, Scenario
from orchestrator.store.protocol import Store
from streams.vectors.chunk import TIMESTAMP

TUPLES, INTERVAL_MS = 50, 100
"""A burst, and how often one comes."""

BURST_MS = 10.0
"""What a burst takes each query."""

PERIOD_MS = 200
TIGHT_MS = 100
"""Deadline of queries that are admitted."""

ORDER_MS = (600, 60)
"""Deadlines where orders are compared: one that leaves time for all releases of a moment, and one
that leaves time for the half."""

MOST = 12
"""Queries that are tried."""

ORDER_QUERIES = (5, 2)
"""Queries of each of these."""

SECONDS, QUICK_SECONDS = 60, 10

SEED = 1

LOOK_S = 0.2
ON_THE_WAY = ("edge", "node-1", "exit")
"""Hosts that a result depends on."""

DISTURBED_SHARE = 0.5
"""A release is disturbed if these have waited for a processor for such a share of its deadline, all
together: other processes may have made it late."""

REPORTED_S = 3.0
"""After the recording has ended, for the last results to arrive."""

HEAD = """\
kind: Cluster
name: periodic
nodes:
  - {{name: node-1, region: here}}
  - {{name: node-2, region: here}}
  - {{name: node-3, region: here}}
sites: [{{name: edge, region: here}}, {{name: exit, region: here}}]
latencies: latency.csv
executorMemory: 512m
emulateCosts: true
scheduling: {policy}
admission: {admission}
batch: 5 ms
---
kind: Stream
name: readings
site: edge
columns: {{key: int, value: int}}
rate: {rate} B/s
burst: {tuples}
from:
  replay:
    path: readings.parquet
    begin: "1970-01-01T00:00:00Z"
    end: "1970-01-01T00:{minutes:02d}:{seconds:06.3f}Z"
    interval: {interval} ms
"""

QUERY = """\
---
kind: Query
name: query-{number}
deadline: 1 s
recovery: 2 s
outputs: {{report_{number}: exit}}
primaries: {{report_{number}: [node-1]}}
estimates: {{report_{number}: {{selectivity: 0.1, cost: {cost_us} us}}}}
statements: |
  REGISTER QUERY report_{number} RSTREAM(
    SELECT key, count(*) AS n, sum(value) AS total FROM readings [RANGE 1 SECOND] GROUP BY key)
    RTSPEC PERIOD {period} MILLISECONDS DEADLINE {deadline} MILLISECONDS;
"""


@benchmark("periodic", kinds=("simulated", "order", "real"))
def periodic(settings: Settings) -> Mapping[str, float]:
    """Late releases of periodic queries, at the utilisation that admission admits; EDF and ERTF."""
    seconds = QUICK_SECONDS if settings.quick else SECONDS
    figures: dict[str, float] = {}
    if not settings.only or {"simulated", "real"} & {*settings.only}:
        settings.say("admission")
        manifests = workload(settings.folder, [TIGHT_MS] * MOST, seconds)
        admitted, figures = admission(manifests)
        manifests = msgspec.structs.replace(manifests, queries=manifests.queries[:admitted])
        if not settings.only or "simulated" in settings.only:
            settings.say(f"simulated: {admitted} queries")
            figures |= {f"simulated.{key}": each for key, each in simulated(manifests).items()}
        if not settings.only or "real" in settings.only:
            figures |= {
                f"real.{key}": each for key, each in real(settings, manifests, seconds).items()
            }
    if not settings.only or "order" in settings.only:
        both = zip(ORDER_MS, ORDER_QUERIES, strict=True)
        deadlines_ms = [each for each, count in both for _ in range(count)]
        for policy in ("edf", "ertf"):
            settings.say(f"order: {policy}")
            manifests = workload(settings.folder, deadlines_ms, seconds, policy, admits=False)
            figures |= {f"order.{policy}.{k}": each for k, each in simulated(manifests).items()}
    return figures


def workload(
    folder: Path,
    deadlines_ms: Sequence[int],
    seconds: int,
    policy: str = "edf",
    *,
    admits: bool = True,
) -> Manifests:
    """Write the recording and the manifests, and read the manifests.

    Parameters
    ----------
    deadlines_ms
        Of the queries.
    seconds
        How long the recording is.
    admits
        Whether queries may be refused.
    """
    parquet.write_table(recording(seconds), folder / "readings.parquet")
    (folder / "latency.csv").write_text("region,here\nhere,1.0\n")
    minutes, left = divmod(seconds - INTERVAL_MS / 1000, 60)
    head = HEAD.format(
        policy=policy,
        admission="on" if admits else "off",
        rate=24 * TUPLES * 1000 // INTERVAL_MS,
        tuples=TUPLES,
        minutes=int(minutes),
        seconds=left,
        interval=INTERVAL_MS,
    )
    bodies = [
        QUERY.format(
            number=number,
            cost_us=BURST_MS * 1000 / TUPLES,
            period=PERIOD_MS,
            deadline=deadline_ms,
        )
        for number, deadline_ms in enumerate(deadlines_ms)
    ]
    path = folder / f"periodic-{policy}.yaml"
    path.write_text(head + "".join(bodies))
    return load([path])


def recording(seconds: int) -> pa.Table:
    """`TUPLES` at each interval."""
    numbers = np.arange(seconds * 1000 // INTERVAL_MS * TUPLES, dtype=np.int64)
    columns = {
        RECORDED_TIMESTAMP: numbers // TUPLES * INTERVAL_MS,
        "key": numbers % 5,
        "value": numbers % 97,
    }
    fields = [pa.field(name, pa.int64(), nullable=False) for name in columns]
    return pa.table([pa.array(each) for each in columns.values()], schema=pa.schema(fields))


def admission(manifests: Manifests) -> tuple[int, dict[str, float]]:
    """How many queries are admitted, and the figures of the refusal of one more."""
    scenario = Scenario(manifests, seed=SEED, own_machines=True)
    scenario.run_for(SETTLE_S)
    view = read_view(scenario.store)
    for count in range(1, len(manifests.queries) + 1):
        try:
            admit(view, manifests.streams, manifests.queries[:count])
        except Refused as refused:
            tuples_s = TUPLES * 1000 / INTERVAL_MS
            used = (count - 1) * tuples_s * BURST_MS / TUPLES / 1000
            told = {
                f"refused.{key}": float(value)
                for key, value in refused.figures.items()
                if key in ("at_ms", "demand_ms", "blocking_ms")
            }
            return count - 1, {"admitted": float(count - 1), "utilisation": used, **told}
    return len(manifests.queries), {"admitted": float(len(manifests.queries))}


def simulated(manifests: Manifests) -> dict[str, float]:
    """Late releases of all queries on simulated hosts."""
    scenario = Scenario(manifests, seed=SEED, own_machines=True)
    outcome = scenario.play(kill_after_s=None)
    return late(manifests, {name: outcome.delivered(name) for name in outputs(manifests)})


def real(settings: Settings, manifests: Manifests, seconds: float) -> dict[str, float]:
    """Late releases of all queries on executors of this machine."""

    def progress(step: str, detail: str) -> None:
        settings.say(f"real: {step}: {detail[:80]}")

    assert manifests.cluster is not None
    with tempfile.TemporaryDirectory(prefix="vivace-bench-") as work:
        cluster = LocalCluster(manifests.cluster, Path(work), on_progress=progress)
        with cluster:
            # All at once: a query that joins a stream which runs is late until it stands by.
            apply(Cluster(cluster.config, cluster.store), manifests)
            settings.say("real: the recording is played")
            hosts = read_view(cluster.store).hosts
            with ProcessorWaits(hosts[each].pid for each in ON_THE_WAY) as waits:
                start_us = _wait_for_end(cluster.store, seconds)
        delivered = {name: read_back(cluster.archive, name) for name in outputs(manifests)}

    def undisturbed(release_ms: int) -> bool:
        begin_us = start_us + release_ms * 1000
        waited_ms = waits.between_ms(begin_us, begin_us + TIGHT_MS * 1000)
        return waited_ms < DISTURBED_SHARE * TIGHT_MS

    found = late(manifests, delivered, undisturbed)
    return late(manifests, delivered) | {f"undisturbed.{key}": each for key, each in found.items()}


def _wait_for_end(store: Store, seconds: float) -> int:
    """Wait until a recording of so many seconds has been played, and its results have arrived.

    Returns when it began, on the cluster's clock.
    """
    while (start_us := read_view(store).entering["readings"].running.start_at_us) is None:
        time.sleep(LOOK_S)
    time.sleep(max(start_us / 1e6 + seconds - now_us() / 1e6, 0.0) + REPORTED_S)
    return start_us


def outputs(manifests: Manifests) -> Iterator[str]:
    """All output streams."""
    for query in manifests.queries:
        yield from query.record.outputs


def late(
    manifests: Manifests,
    delivered: Mapping[str, Delivered],
    counts: Callable[[int], bool] = lambda release_ms: True,
) -> dict[str, float]:
    """How many releases came after their deadline, of how many; of those that count."""
    releases = missed = 0
    worst_ms = 0.0
    for query in manifests.queries:
        for name in query.record.outputs:
            one = delivered[name]
            times, firsts = np.unique(one.rows.column(TIMESTAMP).to_numpy(), return_index=True)
            counted = np.array([counts(int(each)) for each in times], dtype=bool)
            latencies_ms = one.row_latencies_ms[firsts][counted]
            releases += len(latencies_ms)
            missed += int(np.count_nonzero(latencies_ms > query.record.deadline_of(name)))
            worst_ms = max(worst_ms, float(latencies_ms.max(initial=0.0)))
    return {
        "releases": float(releases),
        "miss_pct": 100.0 * missed / max(releases, 1),
        "latency_ms_max": worst_ms,
    }
