"""Periodic statements that a node has no time for are refused, with what would help."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from orchestrator.control.decide.admission import Admission, admit
from orchestrator.control.planning import planner
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.relocation import MoveRefused, relocate
from orchestrator.errors import Refused
from orchestrator.manifest import Manifests, QueryManifest, StreamManifest
from orchestrator.records import Estimate, Processors, StreamRecord
from orchestrator.store.protocol import CLUSTER
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft, query_manifest

STREAMS = aircraft().streams
BURST = 100
NODE = EXECUTORS[0]


@pytest.fixture
def cluster() -> ObedientCluster:
    """Costs are emulated, so that what is planned is what the test states."""
    cluster = ObedientCluster()
    for number, host in enumerate(cluster.hosts.values()):
        own = Processors(machine=f"m{number}", shared=f"boot-{number}", count=4.0)
        host.tell(processors=own)
    found = cluster.store.get(CLUSTER)
    assert found is not None
    record = msgspec.structs.replace(found.record, emulate_costs=True)
    cluster.store.update(CLUSTER, record, found.version)
    return cluster


def with_bursts(*bursts: int) -> list[StreamManifest]:
    return [
        msgspec.structs.replace(each, record=msgspec.structs.replace(each.record, burst=burst))
        for each, burst in zip(STREAMS, bursts, strict=True)
    ]


def reports(
    name: str,
    *clauses: str,
    cost_us: float,
    deadline_ms: float = 60.0,
    nodes: tuple[str, ...] = (NODE,),
    stream: str = "north",
) -> QueryManifest:
    """A query with a statement for each of some RTSPEC clauses."""
    base = query_manifest()
    names = [f"{name}_{number}" for number in range(len(clauses))]
    text = " ".join(
        f"REGISTER QUERY {each} RSTREAM(SELECT count(*) AS n FROM {stream} [RANGE 1 SECOND "
        f"SLIDE 1 SECOND]) {clause};"
        for each, clause in zip(names, clauses, strict=True)
    )
    record = msgspec.structs.replace(
        base.record,
        name=name,
        statements=text,
        outputs=dict.fromkeys(names, "control-centre"),
        deadline_ms=deadline_ms,
        estimates=dict.fromkeys(names, Estimate(cost_us=cost_us, selectivity=0.001)),
        primaries=dict.fromkeys(names, nodes),
    )
    return msgspec.structs.replace(base, record=record)


def admitted(
    cluster: ObedientCluster, *queries: QueryManifest, bursts: tuple[int, int] = (BURST, BURST)
) -> Admission:
    return admit(cluster.view(), with_bursts(*bursts), queries)


def refusal(
    cluster: ObedientCluster, *queries: QueryManifest, bursts: tuple[int, int] = (BURST, BURST)
) -> Refused:
    with pytest.raises(Refused) as caught:
        admitted(cluster, *queries, bursts=bursts)
    return caught.value


PERIOD = "RTSPEC PERIOD 100 MILLISECONDS"


def costing(cluster: ObedientCluster, share: float) -> float:
    """Cost of a tuple, µs, with which a burst takes a share of the sub-deadline."""
    found = admitted(cluster, reports("alone", PERIOD, cost_us=1.0))
    (created,) = found.placements[0].created
    return share * created.timing.sub_deadline_ms * 1000 / BURST


def test_releases_that_coincide_leave_no_time_for_the_batch_that_runs_already(
    cluster: ObedientCluster,
) -> None:
    cost_us = costing(cluster, 0.45)
    admitted(cluster, reports("one", PERIOD, cost_us=cost_us))
    error = refusal(cluster, reports("both", PERIOD, PERIOD, cost_us=cost_us))
    figures = error.figures
    at_ms, demand_ms = float(figures["at_ms"]), float(figures["demand_ms"])
    assert figures["node"] == NODE
    assert demand_ms == pytest.approx(at_ms * (0.9 + 1 / 6), rel=1e-3)
    assert figures["relieve_ms.both_0"] == pytest.approx(demand_ms - at_ms)
    assert figures["offset_ms.both_0"] == 50
    for part in (
        f"refused: deadline '60 ms': on {NODE}, {demand_ms:.3g} ms of recurring work may be due",
        "Relieve both_0 of",
        "or release both_0 at another time: PERIOD … OFFSET 50 MILLISECONDS.",
    ):
        assert part in str(error)
    assert error.exit_status == 2


def test_what_was_proposed_is_admitted(cluster: ObedientCluster) -> None:
    cost_us = costing(cluster, 0.45)
    later = f"{PERIOD} OFFSET 50 MILLISECONDS"
    found = admitted(cluster, reports("both", PERIOD, later, cost_us=cost_us))
    assert {each.primary for each in found.plan.placements} == {NODE}


def test_offsets_tell_nothing_of_statements_that_read_other_streams(
    cluster: ObedientCluster,
) -> None:
    cost_us = costing(cluster, 0.45)
    later = f"{PERIOD} OFFSET 50 MILLISECONDS"
    first = reports("first", PERIOD, cost_us=cost_us)
    second = reports("second", later, cost_us=cost_us, stream="south")
    assert refusal(cluster, first, second).figures["node"] == NODE


def test_the_less_important_is_to_be_relieved(cluster: ObedientCluster) -> None:
    cost_us = costing(cluster, 0.45)
    first = reports("first", PERIOD, cost_us=cost_us)
    second = reports("second", f"{PERIOD} IMPORTANCE 1", cost_us=cost_us)
    assert "Relieve first_0 of" in str(refusal(cluster, first, second))


def test_another_node_is_taken_if_one_has_no_time(cluster: ObedientCluster) -> None:
    cost_us = costing(cluster, 0.45)
    nodes = (NODE, EXECUTORS[1], EXECUTORS[2])
    first = reports("first", PERIOD, cost_us=cost_us, nodes=nodes)
    second = reports("second", PERIOD, cost_us=cost_us, nodes=nodes)
    found = admitted(cluster, first, second)
    assert len({each.primary for each in found.plan.placements}) == 2


def test_a_release_that_comes_often_leaves_no_time_for_long_work(
    cluster: ObedientCluster,
) -> None:
    """The test of one burst counts the frequent work once; it comes several times meanwhile."""
    often = reports("often", "RTSPEC PERIOD 4 MILLISECONDS", cost_us=180.0, deadline_ms=46.0)
    long = reports("long", "", cost_us=75.0, deadline_ms=60.0, stream="south")
    bursts = (12, 200)
    admitted(cluster, often, bursts=bursts)
    admitted(cluster, long, bursts=bursts)
    figures = refusal(cluster, often, long, bursts=bursts).figures
    assert float(figures["demand_ms"]) > float(figures["at_ms"])


def test_where_nothing_is_periodic_nothing_is_tested(cluster: ObedientCluster) -> None:
    cost_us = costing(cluster, 0.45)
    admitted(cluster, reports("both", "", "", cost_us=cost_us))


def test_a_change_to_releases_that_leave_no_time_is_refused_and_one_back_is_not(
    cluster: ObedientCluster,
) -> None:
    cost_us = costing(cluster, 0.45)
    later = f"{PERIOD} OFFSET 50 MILLISECONDS"
    found = reports("both", PERIOD, later, cost_us=cost_us)
    cluster.apply(
        Manifests(cluster=None, streams=tuple(with_bursts(BURST, BURST)), queries=(found,))
    )
    cluster.settle()
    error = refusal(cluster, reports("both", PERIOD, PERIOD, cost_us=cost_us))
    assert error.figures["node"] == NODE
    admitted(cluster, reports("both", PERIOD, f"{later} IMPORTANCE 2", cost_us=cost_us))


@pytest.mark.parametrize(
    ("speed", "periods_ms", "helps"), [(0.5, (250, 61), False), (60, (6000, 12_000), True)]
)
def test_what_is_proposed_for_a_replay_is_admitted(
    speed: float,
    periods_ms: tuple[int, int],
    helps: bool,
    cluster: ObedientCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Offsets are whole milliseconds of event time: half a one, which would help, is none."""

    def played_speed(_: StreamRecord) -> float:
        return speed

    monkeypatch.setattr(planner, "played_speed", played_speed)
    clauses = [f"RTSPEC PERIOD {each} MILLISECONDS" for each in periods_ms]
    alone = reports("alone", clauses[0], cost_us=1.0, deadline_ms=46.0)
    (created,) = admitted(cluster, alone).placements[0].created
    cost_us = 0.45 * created.timing.sub_deadline_ms * 1000 / BURST
    both = partial(reports, "both", cost_us=cost_us, deadline_ms=46.0)
    figures = refusal(cluster, both(*clauses)).figures
    assert ("offset_ms.both_0" in figures) is helps
    if helps:
        clauses[0] += f" OFFSET {figures['offset_ms.both_0']:g} MILLISECONDS"
        admitted(cluster, both(*clauses))


def test_no_move_makes_releases_late(cluster: ObedientCluster) -> None:
    cost_us = costing(cluster, 0.45)
    nodes = (NODE, EXECUTORS[1], EXECUTORS[2])
    queries = tuple(reports(name, PERIOD, cost_us=cost_us, nodes=nodes) for name in ("one", "two"))
    streams = tuple(with_bursts(BURST, BURST))
    cluster.apply(Manifests(cluster=None, streams=streams, queries=queries))
    cluster.settle()
    planning = Planning.of(cluster.view())
    there = {name: planning.running[f"{name}_0"].primary for name in ("one", "two")}
    assert there["one"] != there["two"]
    secondary = next(node for node in EXECUTORS if node != there["one"])
    with pytest.raises(MoveRefused, match="releases would be late"):
        relocate(planning, "two.two_0", there["one"], secondary)


def test_hosts_are_told_the_period_on_their_clock(
    cluster: ObedientCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def played_speed(_: StreamRecord) -> float:
        return 60.0

    monkeypatch.setattr(planner, "played_speed", played_speed)
    query = reports("one", "RTSPEC PERIOD 6 SECONDS", "", cost_us=1.0)
    streams = tuple(with_bursts(BURST, BURST))
    cluster.apply(Manifests(cluster=None, streams=streams, queries=(query,)))
    cluster.settle()
    assigned = [f for each in cluster.view().assignments.values() for f in each.record.fragments]
    assert {each.fragment: each.period_ms for each in assigned} == {"one_0": 100.0, "one_1": None}
