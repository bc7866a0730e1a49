"""The API's operations on a cluster in memory, as a script calls them."""

from __future__ import annotations

import doctest
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from orchestrator import api
from orchestrator.api import proposals, standing_by
from orchestrator.api.applying import SHOWN_PROBLEMS, await_protected
from orchestrator.api.cluster_status import NO_LEADER
from orchestrator.api.tailing import why_quiet
from orchestrator.control.observe.view import read_view
from orchestrator.deploy.context import ClusterContext
from orchestrator.edges.sources import spec_of
from orchestrator.edges.sources.live.refused import SideStream
from orchestrator.edges.sources.side_streams import SideSource
from orchestrator.errors import Unreachable
from orchestrator.manifest import cluster_record
from orchestrator.progress import Progress, silent
from orchestrator.records import (
    ApplyRequest,
    ClockOffset,
    ClocksRecord,
    InputStatus,
    NodeCoordinate,
    SourceStatus,
    WaitingInput,
)
from orchestrator.results.status import FragmentStatus
from orchestrator.simulation.world.memory_store import MemoryServer
from orchestrator.store.protocol import (
    CLUSTER,
    LEADER,
    NODES,
    QUERIES,
    STREAMS,
    LeaderRecord,
    RecordInvalid,
)
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft


def connected(cluster: ObedientCluster) -> api.Cluster:
    reach = ClusterContext(cluster="aircraft", pid=os.getpid(), started_s=0.0, folder="nowhere")
    return api.Cluster(reach, cluster.store)


def following(cluster: ObedientCluster) -> Progress:
    """Has coordinator and hosts do all they have to do, while a client waits."""
    return lambda step, detail: cluster.settle()


@pytest.fixture
def running() -> ObedientCluster:
    """A cluster whose query runs with warm standbys."""
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    cluster.settle()
    return cluster


def test_who_waits_for_a_leader_that_never_responds_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proposals, "RESPONSE_S", 0.0)
    server = MemoryServer()
    server.connect().create(LEADER, LeaderRecord(candidate="stuck"), ephemeral=True)
    with (
        proposals.ProposalClient(server.connect()) as client,
        pytest.raises(Unreachable, match=r"Coordinator stuck .* leads, and has not responded"),
    ):
        client.ask(ApplyRequest(streams=(), queries=()))


def test_example_of_the_documentation_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ObedientCluster()
    manifest = api.load([Path("examples/aircraft/cluster.yaml")]).cluster
    assert manifest is not None
    cluster.store.update(CLUSTER, cluster_record(manifest), 0)

    monkeypatch.chdir(Path(__file__).parents[4])
    with leading(cluster):
        assert doctest.testmod(api, extraglobs={"cluster": connected(cluster)}).failed == 0


@contextmanager
def leading(cluster: ObedientCluster) -> Generator[None]:
    """Have the coordinator take its steps on a thread of its own."""
    done = threading.Event()

    def lead() -> None:
        while not done.wait(0.02):
            cluster.coordination.run_once(cluster.now_us)

    thread = threading.Thread(target=lead)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_status_of_what_runs(running: ObedientCluster) -> None:
    status = api.status(connected(running))
    assert status.cluster == "aircraft"
    assert status.problems == ()
    assert status.fragments
    assert all(each.redundant and each.secondary_state == "warm" for each in status.fragments)
    assert {each.site for each in status.outputs} == {"control-centre"}
    assert "planned" in {each.kind for each in status.history}


def test_latencies_say_how_uncertain_they_are(running: ObedientCluster) -> None:
    status = api.status(connected(running))
    assert {each.latency_uncertainty_ms for each in status.outputs} == {0.0}
    running.hosts["control-centre"].tell(machine="there")
    running.settle()
    status = api.status(connected(running))
    assert {each.latency_uncertainty_ms for each in status.outputs} == {None}
    measured = ClockOffset(ahead_us=7, uncertainty_us=1000)
    running.hosts["paris"].tell(clocks={"there": measured})
    running.settle()
    status = api.status(connected(running))
    (uncertainty_ms,) = {each.latency_uncertainty_ms for each in status.outputs}
    assert uncertainty_ms is not None
    assert 2.0 <= uncertainty_ms <= 5.0
    samples = {s.name: s.value for s in api.metrics(connected(running)).metrics}
    assert samples["vivace_output_latency_uncertainty_seconds"] == uncertainty_ms / 1000


def start_slowly(cluster: ObedientCluster) -> Callable[[], None]:
    """Have executors be far from everybody at first; returns what ends that."""
    hosts = [cluster.hosts[name] for name in EXECUTORS]
    known = [(host, host.record.coordinate, host.record.latencies_ms) for host in hosts]
    guess = NodeCoordinate(position_ms=(900.0, 900.0), cpu_ms=0.0, error=1.0, error_ms=900.0)
    for host in hosts:
        host.tell(coordinate=guess, latencies_ms=dict.fromkeys(host.record.latencies_ms, 900.0))

    def settle() -> None:
        for host, coordinate, latencies_ms in known:
            host.tell(coordinate=coordinate, latencies_ms=latencies_ms)

    return settle


def test_what_is_refused_because_latencies_are_guesses_is_tried_until_they_are_known() -> None:
    """The first round trips of hosts that have just started are slow."""
    cluster = ObedientCluster()
    settle = start_slowly(cluster)
    waited_for: list[str] = []

    def progress(step: str, detail: str) -> None:
        if step == "waiting":
            waited_for.append(detail)
            settle()
        cluster.settle()

    applied = api.apply(connected(cluster), aircraft(), dry_run=True, on_progress=progress)
    assert waited_for == [f"until latencies of {', '.join(sorted(EXECUTORS))} are known"]
    assert {each.query for each in applied.plan.queries} == {"proximity"}


def test_refusal_says_which_latencies_are_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposals, "SETTLES_S", 0.0)
    cluster = ObedientCluster()
    start_slowly(cluster)
    with pytest.raises(api.Refused, match="are not known well yet") as refused:
        api.apply(connected(cluster), aircraft(), dry_run=True, on_progress=following(cluster))
    assert refused.value.guessed == tuple(sorted(EXECUTORS))


def test_lagging_standby_is_no_redundancy_in_the_status(running: ObedientCluster) -> None:
    for host in running.hosts.values():
        host.lags_since_us = running.now_us
    running.settle()
    status = api.status(connected(running))
    assert {(each.redundant, each.secondary_state) for each in status.fragments} == {
        (False, "lagging")
    }


def test_status_tells_how_long_a_fragment_is_or_was_without_a_warm_secondary(
    running: ObedientCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def now_us(_: ClocksRecord) -> int:
        return running.now_us

    def alerts() -> FragmentStatus:
        (found,) = [f for f in api.status(connected(running)).fragments if f.fragment == "alerts"]
        return found

    monkeypatch.setattr(standing_by, "cluster_now_us", now_us)
    running.now_us += 5_000_000
    assert (alerts().redundant, alerts().unprotected_s) == (True, None), "it lost nothing so far"
    found = running.view().fragments["proximity.alerts"]
    running.lose_secondary(found.record, found.version)
    # The leader hears of it some time later.
    running.now_us += 200_000
    running.settle_coordinator()
    running.now_us += 100_000
    assert (alerts().redundant, alerts().unprotected_s) == (False, 0.3)
    running.now_us += 400_000
    assert (alerts().redundant, alerts().unprotected_s) == (False, 0.7)
    running.settle()
    running.now_us += 5_000_000
    assert (alerts().redundant, alerts().unprotected_s) == (True, 0.7)


def leave_one_primary(running: ObedientCluster) -> None:
    """Kill every executor but that of a primary, for which no second node is left."""
    first = next(iter(running.view().fragments.values()))
    for name in EXECUTORS:
        if name != first.record.primary.node:
            running.kill(name)


def test_problems_of_the_leader_are_in_the_status(running: ObedientCluster) -> None:
    leave_one_primary(running)
    for _ in range(3):
        running.coordination.run_once(running.now_us)
    problems = api.status(connected(running)).problems
    assert problems == running.coordination.problems
    assert problems


def test_problems_that_are_solved_leave_the_status(running: ObedientCluster) -> None:
    gone = list(running.hosts)[1:6]
    for name in gone:
        running.kill(name)
    running.coordination.run_once(running.now_us)
    for name in gone:
        running.up(name)
    running.settle()
    assert api.status(connected(running)).problems == ()


def test_problem_is_published_again_after_a_lost_session(running: ObedientCluster) -> None:
    leave_one_primary(running)
    running.coordination.run_once(running.now_us)
    running.coordinator_store.suspend()
    running.coordinator_store.expire()
    assert api.status(connected(running)).problems == (NO_LEADER,)
    running.coordinator_store.resume()
    for _ in range(3):
        running.coordination.run_once(running.now_us)
    assert api.status(connected(running)).problems == running.coordination.problems != ()


def test_broken_record_is_a_problem_once(running: ObedientCluster) -> None:
    running.server.plant(QUERIES.key("broken").path, b"{")
    running.coordination.run_once(running.now_us)
    (problem,) = api.status(connected(running)).problems
    assert "queries/broken" in problem
    assert running.view().invalid
    assert isinstance(running.view().invalid[0], RecordInvalid)


def test_a_stream_that_another_version_wrote_is_neither_applied_nor_deleted(
    running: ObedientCluster,
) -> None:
    entries = running.server.entries
    spec = msgspec.json.decode(entries["streams/north"].data)
    running.server.plant("streams/north", msgspec.json.encode(spec | {"needs": 99}))
    before = {path: entry.data for path, entry in entries.items()}
    with pytest.raises(RecordInvalid, match=r"Another version of Vivace .* `vivace down`"):
        api.apply(connected(running), aircraft(), wait=False)
    with pytest.raises(RecordInvalid, match=r"Another version of Vivace .* `vivace down`"):
        api.delete(connected(running), "north", on_progress=running.step)
    assert {path: entry.data for path, entry in entries.items()} == before


def test_plan_and_its_map(running: ObedientCluster) -> None:
    cluster = connected(running)
    plan = api.plan(cluster, on_progress=following(running))
    assert all(fragment.runs for fragment in plan.fragments)
    drawn = api.coordinate_map(cluster, plan)
    assert {place.name for place in drawn.places} == set(running.hosts)
    placed = {(each.fragment, each.primary) for each in plan.fragments}
    assert {(f, host) for host, some in drawn.primaries.items() for f in some} == placed
    to_site = [flow for flow in drawn.flows if flow.target == "control-centre"]
    assert to_site
    assert not any(flow.standby for flow in to_site)
    assert any(flow.standby for flow in drawn.flows)


def test_history_has_the_newest_last(running: ObedientCluster) -> None:
    cluster = connected(running)
    every = api.history(cluster, limit=1000).history
    sequences = [each.sequence for each in every]
    assert len(sequences) > 2
    assert sequences == sorted(sequences)
    assert api.history(cluster, limit=2).history == every[-2:]


def test_metrics_are_those_of_the_exposition(running: ObedientCluster) -> None:
    cluster = connected(running)
    lines = [line for line in api.exposition(cluster).splitlines() if not line.startswith("#")]
    samples = [sample.name for sample in api.metrics(cluster).metrics]
    assert sorted(line.partition("{")[0].partition(" ")[0] for line in lines) == sorted(samples)
    assert "vivace_fragment_epoch" in samples


def test_delete_of_an_unknown_query_suggests_the_nearest(running: ObedientCluster) -> None:
    (name,) = running.view().queries
    with pytest.raises(api.InvalidInput, match=f"Did you mean {name}?"):
        api.delete(connected(running), f"{name}x", on_progress=running.step)


def test_unknown_stream_and_drill_are_refused(running: ObedientCluster) -> None:
    with pytest.raises(api.InvalidInput, match="is not a stream here"):
        api.tail(connected(running), "nothing")
    with pytest.raises(api.InvalidInput, match="Did you mean kill-executor"):
        api.drill(connected(running), "kill-executer")
    with pytest.raises(api.InvalidInput, match="Did you mean kill-executor"):
        api.run_series(connected(running), ["hang", "kill-executer"])
    with pytest.raises(api.InvalidInput, match="'nothing' is neither a running fragment"):
        api.run_series(connected(running), ["hang"], "nothing", times=3)


def test_a_series_tells_each_result_as_it_falls(running: ObedientCluster) -> None:
    told: list[tuple[str, str]] = []

    def tell(step: str, detail: str) -> None:
        told.append((step, detail))

    api.run_series(connected(running), ["lose-quorum"], None, tell, times=2)
    assert [step for step, _ in told] == ["drill", "result"] * 2
    no_server = "no ZooKeeper of the cluster's own runs on this machine"
    assert told[1][1].startswith(f"lose-quorum: does not fit: {no_server}")


def test_results_are_documents(running: ObedientCluster) -> None:
    cluster = connected(running)
    for document in (
        api.status(cluster),
        api.plan(cluster, on_progress=following(running)),
        api.history(cluster),
    ):
        encoded = msgspec.json.encode(document)
        assert msgspec.json.decode(encoded, type=type(document)) == document
    for drill in api.drills():
        assert msgspec.json.decode(msgspec.json.encode(drill), type=type(drill)) == drill


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'fly'"):
        getattr(api, "fly")  # noqa: B009


def test_no_module_hides_an_operation() -> None:
    modules = {path.stem for path in Path(api.__file__).parent.glob("*.py")}
    assert not modules & {name for names in api.MODULES.values() for name in names}


def test_problems_of_hosts_are_in_the_status(running: ObedientCluster) -> None:
    found = running.store.get(NODES.key("paris"))
    assert found is not None
    broken = msgspec.structs.replace(found.record, problems=("north: cannot be read",))
    running.store.update(NODES.key("paris"), broken, found.version)
    status = api.status(connected(running))
    assert status.problems == ("paris: north: cannot be read",)


def test_a_standby_that_does_not_come_is_told_with_what_the_cluster_complains_about(
    running: ObedientCluster,
) -> None:
    for name in EXECUTORS:
        running.hosts[name].cold = True
        running.hosts[name].obey()
    host = running.hosts[EXECUTORS[0]]
    host.tell(problems=tuple(f"disk {n} is full" for n in range(12)))
    with pytest.raises(api.Unreachable) as told:
        await_protected(running.store, ["proximity"], silent, timeout_s=0.0)
    lines = str(told.value).splitlines()
    assert lines[0].startswith("A warm standby for ")
    assert f"! {EXECUTORS[0]}: disk 0 is full" in lines
    assert len(lines) == 1 + SHOWN_PROBLEMS + 1


def test_why_no_tuple_of_a_stream_comes(running: ObedientCluster) -> None:
    def why(stream: str) -> str:
        return why_quiet(read_view(running.store), stream)

    site = running.hosts["north-receiver"]
    assert "Nothing has entered north yet." in why("north")
    site.tell(sources={"north": SourceStatus(next_seq=0, input=InputStatus(late=7))})
    assert "7 tuples were refused" in why("north")
    told = WaitingInput(tuples=3, bytes=9, since_us=0, for_ms=1001, until_idle_ms=1000)
    site.tell(sources={"north": SourceStatus(next_seq=0, input=InputStatus(waiting=told))})
    assert why("north") == (
        "Tuples of north have been accepted, and wait for a tuple from 1970-01-01T00:00:01.001Z "
        "on, or 1 s of silence."
    )
    site.tell(sources={"north": SourceStatus(next_seq=1200)})
    assert "1,200 tuples have entered north" in why("north")
    assert "no longer kept" in why("north")
    assert "No tuple of alerts has come since this command started." in why("alerts")
    assert "no longer kept" in why("alerts")
    site.tell(sources={})
    assert "not open at north-receiver" in why("north")


def test_a_stream_that_has_not_started_says_so() -> None:
    cluster = ObedientCluster()
    for host in cluster.hosts.values():
        host.cold = True
    cluster.apply(aircraft())
    cluster.settle()
    assert "has not started" in why_quiet(read_view(cluster.store), "north")


def test_streams_of_refused_input_start_and_end_with_the_stream_they_stand_beside() -> None:
    cluster = ObedientCluster()
    manifests = aircraft()
    north = manifests.streams[0]
    side = SideSource(of="north", side=SideStream.LATE)
    late = msgspec.structs.replace(
        north.record, name="north.late", beside="north", source=spec_of("side", side)
    )
    streams = (*manifests.streams, msgspec.structs.replace(north, record=late))
    cluster.apply(msgspec.structs.replace(manifests, streams=streams))
    cluster.settle()
    started = {name: stream.running.start_at_us for name, stream in cluster.view().entering.items()}
    assert started.keys() == {"north", "north.late", "south"}
    assert len(set(started.values())) == 1
    assert None not in started.values()
    for stream, why in (("north", "is read by proximity"), ("north.late", "is a side stream of")):
        with pytest.raises(api.InvalidInput, match=why):
            api.delete(connected(cluster), stream, on_progress=cluster.step)
    deleted = api.delete(connected(cluster), "proximity", on_progress=cluster.step)
    assert deleted.streams == ("north", "north.late", "south")
    assert cluster.store.list(STREAMS).records == {}
    # Applied without a query.
    cluster.apply(msgspec.structs.replace(manifests, streams=streams, queries=()))
    deleted = api.delete(connected(cluster), "north", on_progress=cluster.step)
    assert (deleted.queries, deleted.streams) == ((), ("north", "north.late"))
    assert [*cluster.store.list(STREAMS).records] == ["south"]


def test_several_queries_are_deleted_readers_first() -> None:
    cluster = ObedientCluster()
    manifests = aircraft()
    (alerts,) = manifests.queries
    reader = msgspec.structs.replace(
        alerts.record,
        name="reader",
        statements="REGISTER QUERY again RSTREAM(SELECT * FROM alerts [NOW]);",
        outputs={"again": alerts.record.outputs["alerts"]},
        sinks={}, deadlines_ms={}, estimates={}, primaries={}, overflow={},
    )  # fmt: skip
    second = msgspec.structs.replace(alerts, record=reader)
    cluster.apply(msgspec.structs.replace(manifests, queries=(alerts, second)))
    cluster.settle()
    here = connected(cluster)
    before = cluster.store.list(QUERIES).records
    for names in (("proximity",), ("reader", "north"), ("reader", "nothing"), ()):
        with pytest.raises(api.InvalidInput):
            api.delete(here, *names, on_progress=cluster.step)
        assert cluster.store.list(QUERIES).records == before
    deleted = api.delete(
        here, "proximity", if_there=("reader", "gone", "north"), on_progress=cluster.step
    )
    assert deleted.queries == ("reader", "proximity")
    assert (deleted.streams, deleted.absent) == (("north", "south"), ("gone",))
    assert cluster.store.list(QUERIES).records == {}


def test_the_api_lists_what_it_has() -> None:
    assert {"apply", "delete", "InvalidInput", "load"} <= {*dir(api)}
    assert all(getattr(api, name) is not None for name in dir(api))
