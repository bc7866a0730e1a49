"""The moment of deadline placement, §4.1 and Fig. 3 and 4: two hosts of the product, simulated.

On-board sensors have just brought 10 tuples (p1); 20 tuples of other vehicles (p2) are 100 ms old
and wait at o2, 100 of the traffic centre (p3) are 200 ms old and wait at o6, for two operators of
1 ms each. In the paper p3 is preempted at any time; here between two of its tuples. The links from
the radio and from the centre take as long as the paper's tuples are old.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench.collision_warning import collision_warning
from bench.traffic_baseline import place_by_traffic
from orchestrator.control.decide.assignments import assignments
from orchestrator.control.observe.clocks import revised_clocks
from orchestrator.control.observe.view import read_view
from orchestrator.control.planning.planner import Planning
from orchestrator.edges.events import Deliver
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.edges.sources import spec_of
from orchestrator.edges.sources.replay import Replay
from orchestrator.manifest import load
from orchestrator.records import (
    ClusterRecord,
    FragmentRecord,
    HostSpec,
    NodeKind,
    StreamRecord,
    Timing,
)
from orchestrator.simulation.world.world import World
from orchestrator.store.protocol import ASSIGNMENTS, FRAGMENTS, QUERIES, RUNNING_STREAMS, STREAMS
from placement.deadline.contraction import contract
from placement.deadline.solver import place_by_deadline
from streams.scheduling.run_queue import Policy
from streams.vectors.chunk import stream_schema

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "collision-warning"

NODES = ("car-1", "car-2")
AGES_MS = {"radio": 100.0, "uplink": 200.0, "sensors": 0.0}
"""Sites, and what their links to the car take."""

SITES = {"v2v": "radio", "centre": "uplink", "onboard": "sensors", "own": "sensors"}
STARTED_MS = 2_000
"""When recordings begin, after the world."""

MOMENT_MS = 400
"""The paper's moment, after that."""

PUT_OFF_MS = 0.001
"""By which p1 comes after p2, so that their order is certain."""


def tuples(stream: str, path: Path) -> None:
    """One round: what the car knows of itself at 0, p1 and p2 at 1 ms, p3 at 1 to 100 ms."""
    whole = np.arange
    columns: dict[str, np.ndarray[tuple[int], np.dtype[np.generic]]]
    if stream == "centre":
        columns = {"timestamp": whole(1, 101), "segment": whole(100), "speed": np.full(100, 20.0)}
    else:
        count = {"v2v": 20, "onboard": 10, "own": 1}[stream]
        # Every second vehicle approaches.
        sign = np.where(whole(count) % 2 == 0, -1.0, 1.0)
        columns = {"timestamp": np.full(count, 0 if stream == "own" else 1)}
        if stream != "own":
            columns["sender" if stream == "v2v" else "object"] = whole(count)
        place = 10.0 + whole(count)
        columns |= {"x": place, "y": place, "vx": sign, "vy": sign}
    parquet.write_table(pa.Table.from_pydict(columns), path)


class Car:
    """The car's two processors and its links, at one moment.

    Parameters
    ----------
    places, sub_deadlines_ms
        By operator, as the paper names them.
    """

    def __init__(
        self,
        folder: Path,
        policy: Policy,
        places: dict[str, str],
        sub_deadlines_ms: dict[str, float],
    ) -> None:
        self._deliveries: list[Deliver] = []
        cluster = ClusterRecord(
            name="car",
            delays_ms={site: {"car": age} for site, age in AGES_MS.items()},
            batch_ms=0.0,
            scheduling=policy,
            emulate_costs=True,
        )
        specs = [_spec(node, NodeKind.EXECUTOR, "car") for node in NODES]
        specs += [_spec(site, NodeKind.SITE, site) for site in AGES_MS]
        specs.append(_spec("cockpit", NodeKind.SITE, "car"))
        self._world = World(cluster, specs, seed=1, deliver=self._keep)
        self._store = self._world.server.connect()
        self._world.run_for(0.1)
        manifests = load([EXAMPLE])
        for manifest in manifests.streams:
            record = self._stream(manifest.record, folder)
            self._store.create(STREAMS.key(record.name), record)
        for name, entering in read_view(self._store).entering.items():
            started = msgspec.structs.replace(
                entering.running, start_at_us=self._world.now_us + STARTED_MS * 1000
            )
            self._store.create(RUNNING_STREAMS.key(name), started)
        (query,) = manifests.queries
        self._store.create(QUERIES.key("collision"), query.record)
        for operator, node in places.items():
            fragment = operator.lower()
            timing = Timing(
                cost_ms=1.0, sub_deadline_ms=sub_deadlines_ms[operator], standby_lag_ms=1.0
            )
            record = FragmentRecord(
                query="collision",
                fragment=fragment,
                epoch=1,
                generation=1,
                primary=read_view(self._store).replica(f"car-{node[-1]}"),
                secondary=None,
                timing=timing,
            )
            self._store.create(FRAGMENTS.key(f"collision.{fragment}"), record)
        view = read_view(self._store)
        planning = Planning.of(view)
        nodes = [found.record for found in view.nodes.values()]
        clocks = revised_clocks(view.cluster_clocks, nodes)
        for name, each in assignments(planning, clocks).items():
            self._store.create(ASSIGNMENTS.key(name), each)

    def latency_ms(self, stream: str) -> float:
        """Latency of the last tuple of an output."""
        self._world.run_for(5.0)
        columns = dict(read_view(self._store).dataflow.columns[stream])
        deliveries = [each for each in self._deliveries if each.stream == stream]
        delivered = Delivered.from_deliveries(deliveries, stream_schema(columns))
        return float(delivered.row_latencies_ms.max())

    def _stream(self, record: StreamRecord, folder: Path) -> StreamRecord:
        path = folder / f"{record.name}.parquet"
        tuples(record.name, path)
        site = SITES[record.name]
        age_ms = AGES_MS[site] - (PUT_OFF_MS if record.name == "onboard" else 0.0)
        replay = Replay(
            path=str(path),
            speed=1.0,
            begin_ms=0,
            end_ms=200,
            interval_ms=200,
            delay_ms=0.0 if record.name == "own" else MOMENT_MS - 200 - age_ms,
        )
        return msgspec.structs.replace(
            record, site=site, source=spec_of("replay", replay), shed=None
        )

    def _keep(self, _node: str, delivery: Deliver, _arrived_us: int) -> None:
        self._deliveries.append(delivery)


def _spec(node: str, kind: NodeKind, region: str) -> HostSpec:
    return HostSpec(cluster="car", node=node, kind=kind, region=region, zookeeper="", secret="")


def car(folder: Path, alloc: str, policy: Policy) -> Car:
    """The car with a placement for 20 tuples of other vehicles.

    Parameters
    ----------
    folder
        An empty one, for the recordings.
    alloc
        `deadline` or `existing`, as in benchmark `deadline`.
    """
    contraction = contract(collision_warning(20))
    found = place_by_deadline(contraction.problem)
    places, sub_deadlines_ms = dict[str, str](), dict[str, float]()
    for name, node in found.places.items():
        sub_deadlines_ms |= contraction.shares(name, found.sub_deadlines_ms[name])
        places |= dict.fromkeys(contraction.parts[name], node)
    if alloc == "existing":
        places = place_by_traffic(collision_warning(20)).places
    return Car(folder, policy, places, sub_deadlines_ms)
