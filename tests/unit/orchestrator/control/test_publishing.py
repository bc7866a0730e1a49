"""What the leader publishes besides its decisions, and what must not keep it from deciding."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.control.decide import figures as computing
from orchestrator.control.decide import writes as deciding
from orchestrator.control.decide.figures import MOST_FRAGMENTS, MOST_PLACES, MOST_QUERIES
from orchestrator.control.observe.published import PublishedFigures, read_figures
from orchestrator.control.process import Coordination
from orchestrator.control.publishing import CONFIRMED_US, EVERY_US, Publications, differ
from orchestrator.records import (
    DurationsRecord,
    FiguresRecord,
    FragmentCost,
    FragmentPlan,
    LoadsRecord,
    PlaceLoad,
    Processors,
    QueryPlan,
)
from orchestrator.simulation.world.memory_store import MemoryServer
from orchestrator.store.protocol import (
    FIGURES,
    LOADS,
    PROBLEMS,
    QUERIES,
    ProblemsRecord,
    encode,
)
from tests.obedient_cluster import ObedientCluster, aircraft, query_manifest

ONE_MIB = 1 << 20


@pytest.fixture
def cluster() -> ObedientCluster:
    """A cluster whose query runs, and whose figures are published."""
    cluster = ObedientCluster()
    for host in cluster.hosts.values():
        host.tell(processors=Processors(machine="rack", shared="boot-1", count=4.0))
    cluster.apply(aircraft())
    cluster.settle()
    return cluster


def published(cluster: ObedientCluster) -> PublishedFigures:
    return read_figures(cluster.store)


def loads(cluster: ObedientCluster) -> LoadsRecord:
    found = published(cluster).loads
    assert found is not None
    return found


def put_query(cluster: ObedientCluster, name: str) -> None:
    stream = f"of_{name}"
    query = query_manifest(
        name,
        f"REGISTER QUERY {stream} RSTREAM(SELECT id FROM north [NOW]);",
        outputs={stream: "control-centre"},
    )
    cluster.store.create(QUERIES.key(name), query.record)


def test_a_query_that_runs_has_its_promises_and_costs_published(cluster: ObedientCluster) -> None:
    found = published(cluster).queries["proximity"]
    assert found.at_us == loads(cluster).at_us == cluster.now_us
    assert found.plan is not None
    assert 0 < found.plan.slack_ms == found.plan.deadline_ms - found.plan.latency_ms
    assert [each.fragment for each in found.costs] == ["north_tracks", "south_tracks", "alerts"]
    assert {each.basis for each in found.costs} == {"stated"}
    for name, fragment in cluster.view().fragments.items():
        plan = published(cluster).plan_of(fragment.record)
        assert plan is not None, name
        assert plan.runs
        assert plan.recovery_ms is not None
        assert plan.standby_why
    assert [each.name for each in loads(cluster).places if each.is_machine] == ["rack"]


def test_figures_are_computed_every_two_seconds_at_most(cluster: ObedientCluster) -> None:
    before = published(cluster)
    put_query(cluster, "second")
    cluster.now_us += EVERY_US - 1
    cluster.settle()
    assert published(cluster) == before
    cluster.now_us += 1
    cluster.settle_coordinator()
    assert published(cluster).queries.keys() == {"proximity", "second"}


def test_figures_that_have_not_changed_are_not_written_again(cluster: ObedientCluster) -> None:
    versions = {path: each.version for path, each in cluster.server.entries.items()}
    for _ in range(CONFIRMED_US // EVERY_US - 1):
        cluster.publish_figures()
    assert {path: each.version for path, each in cluster.server.entries.items()} == versions
    # Of the loads, their age is to tell whether the leader still computes them.
    cluster.publish_figures()
    assert loads(cluster).at_us == cluster.now_us
    assert published(cluster).queries["proximity"].at_us < cluster.now_us


def test_figures_go_with_their_query(cluster: ObedientCluster) -> None:
    found = cluster.store.get(QUERIES.key("proximity"))
    assert found is not None
    cluster.store.delete(QUERIES.key("proximity"), found.version)
    cluster.settle()
    cluster.publish_figures()
    assert published(cluster).queries == {}


def test_of_many_queries_a_few_have_their_turn_those_that_changed_first() -> None:
    cluster = ObedientCluster()
    cluster.apply(msgspec.structs.replace(aircraft(), queries=()))
    names = [f"query_{number:02}" for number in range(2 * MOST_QUERIES + 1)]
    for name in names:
        put_query(cluster, name)
    cluster.settle()
    turns: list[set[str]] = []
    for _ in range(3):
        # Unless they are held, as in a session that is new, all are written that are computed.
        before = {name: each.figures.at_us for name, each in figured(cluster).items()}
        cluster.publish_figures()
        now = figured(cluster)
        turns.append({name for name in now if now[name].figures.at_us != before.get(name)})
    assert set().union(*turns) == set(names) == published(cluster).queries.keys()
    assert max(map(len, turns)) == MOST_QUERIES
    last = cluster.view().fragments[f"{names[-1]}.of_{names[-1]}"]
    cluster.take_over(last.record, last.version)
    cluster.settle()
    cluster.publish_figures()
    assert figured(cluster)[names[-1]].figures.at_us == cluster.now_us


def figured(cluster: ObedientCluster) -> dict[str, computing.QueryFigured]:
    publisher = cluster.coordination.figures
    return dict(publisher.figured)


def test_a_bug_in_figures_keeps_nothing_from_being_decided(
    cluster: ObedientCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("unforeseen")

    monkeypatch.setattr(deciding, "cluster_figures", fails)
    cluster.raises_bugs = False
    put_query(cluster, "second")
    cluster.publish_figures()
    assert cluster.coordination.internal_errors == 1
    cluster.settle()
    assert "second.of_second" in cluster.view().fragments
    problem = "figures: nothing is decided, internal error: ZeroDivisionError('unforeseen')"
    # Said also by decisions for which figures are not due.
    assert cluster.coordination.problems == (problem,)
    assert cluster.coordination.retry_s == 0
    monkeypatch.undo()
    cluster.publish_figures()
    assert cluster.coordination.problems == ()
    assert "second" in published(cluster).queries


def test_figures_go_with_their_leader_and_come_with_the_next(cluster: ObedientCluster) -> None:
    second = Coordination(cluster.server.connect(), "coordinator-2")
    before = published(cluster)
    cluster.coordinator_store.suspend()
    assert published(cluster) == before
    cluster.coordinator_store.expire()
    assert published(cluster) == PublishedFigures(
        loads=None, queries={}, durations=DurationsRecord()
    )
    cluster.now_us += 1
    while second.run_once(cluster.now_us):
        pass
    now = published(cluster)
    assert now.queries.keys() == before.queries.keys()
    assert now.queries["proximity"].plan == before.queries["proximity"].plan
    assert loads(cluster).at_us == cluster.now_us
    # The first one leads again, in a session that has published nothing.
    second.election.resign()
    cluster.coordinator_store.resume()
    cluster.publish_figures()
    assert cluster.coordination.election.leads
    assert loads(cluster).at_us == cluster.now_us


def test_leader_takes_the_place_of_figures_that_another_one_wrote(cluster: ObedientCluster) -> None:
    """As if the session of a former leader had not ended yet."""
    cluster.coordination.election.resign()
    cluster.coordination = Coordination(cluster.server.connect(), "coordinator-2")
    cluster.publish_figures()
    assert cluster.coordination.election.leads
    assert published(cluster).queries["proximity"].at_us == cluster.now_us
    assert loads(cluster).at_us == cluster.now_us


def test_of_two_that_publish_in_turn_the_last_one_is_read() -> None:
    server = MemoryServer()
    stores = [server.connect() for _ in range(2)]
    both = [Publications(store) for store in stores]
    for at_us in range(6):
        both[at_us % 2].put(LOADS, LoadsRecord(at_us=at_us, places=()))
        found = stores[0].get(LOADS)
        assert found is not None
        assert found.record.at_us == at_us
    both[0].withdraw(LOADS)
    assert stores[0].get(LOADS) is not None, "the other one has written it since"


@pytest.mark.parametrize("path", [FIGURES.key("proximity").path, LOADS.path])
def test_record_that_cannot_be_read_is_told_and_written_again(
    cluster: ObedientCluster, path: str
) -> None:
    cluster.server.plant(path, b"{")
    (problem,) = published(cluster).lacking
    assert path in problem
    for host in cluster.hosts.values():
        host.tell(latencies_ms={n: 2 * ms for n, ms in host.record.latencies_ms.items()})
    cluster.now_us += CONFIRMED_US
    cluster.publish_figures()
    assert published(cluster).lacking == ()
    assert published(cluster).queries["proximity"].at_us == cluster.now_us


def test_somebody_else_s_record_of_problems_keeps_nothing_from_being_decided(
    cluster: ObedientCluster,
) -> None:
    cluster.server.plant(QUERIES.key("broken").path, b"{")
    cluster.settle_coordinator()
    found = cluster.store.get(PROBLEMS)
    assert found is not None
    cluster.store.update(PROBLEMS, ProblemsRecord(problems=("not a leader's",)), found.version)
    cluster.server.plant(QUERIES.key("as_broken").path, b"{")
    put_query(cluster, "second")
    cluster.settle()
    assert "second.of_second" in cluster.view().fragments
    found = cluster.store.get(PROBLEMS)
    assert found is not None
    assert found.record.problems == cluster.coordination.problems


def test_records_are_small_enough_for_zookeeper() -> None:
    def name(number: int) -> str:
        return f"{number:0128}"

    figure = 123456.7890123
    place = PlaceLoad(
        name=name(1), is_machine=False, hosts=(name(1),), processors=figure, limit_cores=figure,
        predicted_cores=figure, measured_cores=figure, services={"coordinator": figure},
        services_cores=figure, takeover_cores=figure, speed=figure,
    )  # fmt: skip
    cost = FragmentCost(
        query=name(1), fragment=name(2), basis="measured", fixed_us=figure, per_tuple_us=figure,
        evaluations_s=figure, cores=figure, measured_evaluations_s=figure,
        measured_timestamps_s=figure, measured_tuples_s=figure, measured_cores=figure,
        measured_cost_us=figure, suggestion=f"{name(2)}: {{cost: 120 us}}",
    )  # fmt: skip
    fragment = FragmentPlan(
        query=name(1), fragment=name(2), primary=name(3), secondary=name(4), detection_ms=figure,
        transfer_ms=figure, reprocess_ms=figure, recovery_ms=figure, bound_ms=figure, runs=True,
        domains=(name(5)[:60], name(6)[:60]), shared=(name(7)[:60], name(8)[:60]),
        standby_bytes_s=figure, standby_why=name(7) * 2,
    )  # fmt: skip
    plan = QueryPlan(
        query=name(1), latency_ms=figure, deadline_ms=figure, recovery_ms=figure, bound_ms=figure,
        network_usage_bytes=figure, standby_usage_bytes=figure, path=(name(1) + name(2),) * 20,
    )  # fmt: skip
    whole = FiguresRecord(
        query=name(1), at_us=1, costs=(cost,) * MOST_FRAGMENTS, plan=plan,
        fragments=(fragment,) * MOST_FRAGMENTS,
    )  # fmt: skip
    assert len(encode(whole)) < ONE_MIB
    assert len(encode(LoadsRecord(at_us=1, places=(place,) * MOST_PLACES))) < ONE_MIB


def test_what_is_left_out_of_a_record_is_counted(
    cluster: ObedientCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computing, "MOST_FRAGMENTS", 2)
    monkeypatch.setattr(computing, "MOST_PLACES", 4)
    put_query(cluster, "second")
    cluster.settle()
    cluster.publish_figures()
    found = published(cluster)
    assert len(found.queries["proximity"].costs) == 2
    assert found.lacking == (
        "loads of 6 nodes are left out: there are too many",
        "figures of 1 fragments of query proximity are left out: it has too many",
    )


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({}, False),
        ({"at_us": 9}, False),
        ({"latency_ms": 104.0}, False),
        ({"latency_ms": 106.0}, True),
        ({"recovery_ms": None}, True),
        ({"path": ("a @ lyon",)}, True),
        ({"why": "batches of 12: 30 % less"}, False),
        ({"why": "every tuple"}, True),
        ({"primary": "node-2"}, True),
    ],
)
def test_what_counts_as_a_change(changes: dict[str, object], *, differs: bool) -> None:
    def record(**given: object) -> FiguresRecord:
        told: dict[str, object] = {
            "at_us": 1, "latency_ms": 100.0, "recovery_ms": 50.0, "path": ("a @ paris",),
            "why": "batches of 10: 20 % less", "primary": "node-1", **given,
        }  # fmt: skip
        raw = {
            "query": "q", "at_us": told["at_us"], "costs": [],
            "plan": {
                "query": "q", "latency_ms": told["latency_ms"], "deadline_ms": 300.0,
                "recovery_ms": told["recovery_ms"], "bound_ms": 200.0, "path": told["path"],
                "network_usage_bytes": 1.0, "standby_usage_bytes": 0.0,
            },
            "fragments": [{
                "query": "q", "fragment": "a", "primary": told["primary"], "secondary": "lyon",
                "detection_ms": 1.0, "transfer_ms": 1.0, "reprocess_ms": 1.0, "recovery_ms": 3.0,
                "bound_ms": 200.0, "runs": True, "standby_why": told["why"],
            }],
        }  # fmt: skip
        return msgspec.convert(raw, FiguresRecord)

    assert differ(record(), record(**changes)) is differs
    assert differ(None, record())
