"""Trials of the collision warning with the same manifests, simulated and on real executors.

A trial is a round of the example's recording. The placement of o3 is that of the deadline program,
or that of the traffic baseline (`bench.traffic_baseline`, the paper's ExistingAlloc). Hosts
schedule by earliest deadline first or first in, first out. This gives the four combinations of
deadline placement, §6.1.

ExistingAlloc has no sub-deadlines. Deadline placement, §6.1, says only that it uses those that were
calculated for DeadlineAlloc. Our reading: it borrows the sub-deadlines of local output streams
(§4.1). The output that node 1 hands to node 2 is due as soon after its entry as in the deadline
placement, although o3 lies in between. If o3's own sub-deadline were added, the tuples for the
vehicle's control would always go first and never be late; but that paper finds that they are late.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec
import numpy as np

from bench.cluster import await_end, running
from bench.collision_warning import collision_warning
from bench.traffic_baseline import place_by_traffic
from examples.collision_rounds import BEGIN_MS, ROUND_MS, rounds
from orchestrator.edges.sinks import read_back
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.edges.sources import played
from orchestrator.manifest import Manifests, load
from orchestrator.records import StreamRecord
from orchestrator.simulation.world.scenario import Scenario
from orchestrator.simulation.world.world import Costs
from orchestrator.store.protocol import FRAGMENTS, Store
from streams.scheduling.run_queue import Policy
from streams.vectors.chunk import TIMESTAMP

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "collision-warning"

DESIGN_V2V = 15
"""V2V tuples of a round for which sub-deadlines are planned."""

WARM_UP = 4
"""Rounds that are not counted, in which hosts start and sub-deadlines are borrowed."""

NODES = {"node1": "car-1", "node2": "car-2"}
"""The paper's nodes in the example."""

Misses = dict[int, dict[str, float]]
"""V2V tuples of a round → output stream → share of its tuples that came late, %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """A placement and a scheduling policy.

    Attributes
    ----------
    alloc
        `deadline` or `existing`, after the paper's DeadlineAlloc and ExistingAlloc.
    """

    alloc: str
    policy: Policy

    @property
    def name(self) -> str:
        """The name in keys of figures."""
        return f"{self.alloc}_{self.policy.value}"


COMBINATIONS = tuple(
    Combination(alloc=alloc, policy=policy)
    for policy in (Policy.EDF, Policy.FIFO)
    for alloc in ("deadline", "existing")
)


@cache
def lent_ms() -> float:
    """Sub-deadline of o2 in the deadline placement, which ExistingAlloc borrows, ms."""
    with tempfile.TemporaryDirectory(prefix="vivace-bench-") as folder:
        manifests = prepared(COMBINATIONS[0], [DESIGN_V2V], Path(folder))
        scenario = Scenario(manifests, seed=1)
        scenario.begin()
    found = scenario.store.get(FRAGMENTS.key("collision.o2"))
    assert found is not None, "fragments exist once the streams start"
    return found.record.timing.sub_deadline_ms


def prepared(combination: Combination, volumes: Sequence[int], folder: Path) -> Manifests:
    """The example's manifests with trials of these volumes, recorded in a folder."""
    counts = [DESIGN_V2V] * WARM_UP + list(volumes)
    made = rounds(counts)
    made.write(folder)
    manifests = load([EXAMPLE])
    (query,), cluster = manifests.queries, manifests.cluster
    assert cluster is not None
    primaries = query.record.primaries
    if combination.alloc == "existing":
        problem = collision_warning(DESIGN_V2V)
        primaries = primaries | {"o3": (NODES[place_by_traffic(problem).places["O3"]],)}
    settings = msgspec.structs.replace(cluster.record, scheduling=combination.policy)
    return msgspec.structs.replace(
        manifests,
        cluster=msgspec.structs.replace(cluster, record=settings),
        queries=(
            msgspec.structs.replace(
                query, record=msgspec.structs.replace(query.record, primaries=primaries)
            ),
        ),
        streams=tuple(
            msgspec.structs.replace(
                stream, record=_played_once(stream.record, folder, made.length_ms)
            )
            for stream in manifests.streams
        ),
    )


def simulate(combination: Combination, volumes: Sequence[int], noise: float, seed: int) -> Misses:
    """The trials on a virtual clock, with noise in what tuples cost."""
    with tempfile.TemporaryDirectory(prefix="vivace-bench-") as folder:
        manifests = prepared(combination, volumes, Path(folder))
        scenario = Scenario(manifests, seed=seed, costs=Costs(noise=noise))
        scenario.begin()
        if combination.alloc == "existing":
            borrow(scenario.store)
        played = scenario.finish()
    outputs = manifests.queries[0].record.outputs
    return misses(manifests, volumes, {stream: played.delivered(stream) for stream in outputs})


def run(combination: Combination, volumes: Sequence[int], say: Callable[[str], None]) -> Misses:
    """The trials on Spark executors of this machine."""
    with tempfile.TemporaryDirectory(prefix="vivace-bench-") as folder:
        manifests = prepared(combination, volumes, Path(folder))
        (query,) = manifests.queries

        def progress(step: str, detail: str) -> None:
            say(f"{combination.name}: {step}: {detail}")

        with running(manifests, Path(folder) / "work", progress) as cluster:
            if combination.alloc == "existing":
                borrow(cluster.store)
            await_end(cluster.store, manifests, progress)
        # The site has ended: its archive is complete.
        delivered = {stream: read_back(cluster.archive, stream) for stream in query.record.outputs}
    return misses(manifests, volumes, delivered)


def borrow(store: Store) -> None:
    """Divide o2's sub-deadline in the deadline placement between o2 and o3, which share a node."""
    found = {name: store.get(FRAGMENTS.key(f"collision.{name}")) for name in ("o2", "o3")}
    costs_ms = {name: each.record.timing.cost_ms for name, each in found.items() if each}
    for name, each in found.items():
        assert each is not None, "fragments exist once the streams start"
        share_ms = lent_ms() * costs_ms[name] / sum(costs_ms.values())
        timing = msgspec.structs.replace(each.record.timing, sub_deadline_ms=share_ms)
        store.update(
            FRAGMENTS.key(f"collision.{name}"),
            msgspec.structs.replace(each.record, timing=timing),
            each.version,
        )


def misses(
    manifests: Manifests, volumes: Sequence[int], delivered: Mapping[str, Delivered]
) -> Misses:
    """Late tuples by volume and output, %."""
    record = manifests.queries[0].record
    found: Misses = {volume: {} for volume in sorted(set(volumes))}
    for stream, each in delivered.items():
        timestamps = np.asarray(each.rows[TIMESTAMP].to_numpy(), dtype=np.int64)
        number = (timestamps - BEGIN_MS) // ROUND_MS - WARM_UP
        counted = number >= 0
        volume = np.asarray(volumes)[number[counted]]
        late = each.row_latencies_ms[counted] > record.deadline_of(stream)
        for count in found:
            found[count][stream] = 100.0 * float(late[volume == count].mean())
    return found


def _played_once(stream: StreamRecord, folder: Path, length_ms: int) -> StreamRecord:
    return played(
        stream,
        path=str(folder / f"collision-{stream.name}.parquet"),
        begin_ms=BEGIN_MS,
        end_ms=BEGIN_MS + length_ms,
        repeat=False,
    )
