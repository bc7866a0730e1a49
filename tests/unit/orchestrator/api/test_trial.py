"""What a trial of statements finds before they run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, count
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from orchestrator.api.trial import with_trials
from orchestrator.control.decide.admission import admit
from orchestrator.control.observe.dataflow import dataflow
from orchestrator.control.planning.workload import CostBasis, rates, workload
from orchestrator.edges.sources import spec_of
from orchestrator.edges.sources.replay import Replay
from orchestrator.host.shell.processor_speed import REFERENCE_US
from orchestrator.manifest import Manifests, QueryManifest, StreamManifest
from orchestrator.records import Estimate, HostLoad, StreamRecord, Trial
from orchestrator.store.protocol import CLUSTER
from tests.obedient_cluster import EXECUTORS, ObedientCluster, query_manifest

RATE = 400.0
"""Tuples a second, in rows of 32 bytes."""

STATEMENTS = """\
REGISTER QUERY some RSTREAM(SELECT id, x FROM north [NOW] WHERE x >= 50);
REGISTER QUERY counted ISTREAM(SELECT count(*) AS number FROM some [RANGE 1 SECOND]);
"""


def stream(source: Replay | None = None) -> StreamManifest:
    record = StreamRecord(
        name="north",
        site="north-receiver",
        columns={"id": "string", "x": "float"},
        rate_bytes_s=32 * RATE,
        source=None if source is None else spec_of("replay", source),
    )
    return StreamManifest(file="streams.yaml:1", record=record)


def manifests(
    source: Replay | None = None,
    estimates: dict[str, Estimate] | None = None,
    statements: str = STATEMENTS,
) -> Manifests:
    query = query_manifest(statements=statements, outputs={"counted": "control-centre"})
    record = msgspec.structs.replace(query.record, estimates=estimates or {})
    return Manifests(
        cluster=None,
        streams=(stream(source),),
        queries=(msgspec.structs.replace(query, record=record),),
    )


def ticking(step_us: int = 100) -> Callable[[], int]:
    """A processor clock that goes on by as much at each reading."""
    return count(0, step_us).__next__


def tried(given: Manifests, cluster: ObedientCluster | None = None) -> QueryManifest:
    found = with_trials((cluster or ObedientCluster()).view(), given, ticking())
    return found.queries[0]


def test_generated_rows_give_cost_and_selectivity() -> None:
    trials = tried(manifests()).record.trials
    assert trials.keys() == {"some", "counted"}
    # Rows have values from 0 to 100, so half of them pass.
    assert trials["some"].selectivity == pytest.approx(0.5, abs=0.1)
    assert evaluation_us(trials["some"]) == pytest.approx(REFERENCE_US, rel=0.1)


def evaluation_us(some: Trial) -> float:
    """What an evaluation costs. By the clock here it takes as long as any other piece of work."""
    return some.fixed_us + some.per_tuple_us * RATE / 100


def on_executors(speed: float) -> ObedientCluster:
    cluster = ObedientCluster()
    for name in EXECUTORS:
        cluster.hosts[name].tell(
            load=HostLoad(cores=0.1, evaluating_cores=0.0, evaluations_s=0.0, speed=speed)
        )
    return cluster


def test_it_does_not_matter_how_slow_processors_are_where_a_query_is_tried() -> None:
    # As they are where others use them: here by five times.
    for step_us in (50, 100, 250):
        (query,) = with_trials(ObedientCluster().view(), manifests(), ticking(step_us)).queries
        cost_us = evaluation_us(query.record.trials["some"])
        assert cost_us == pytest.approx(REFERENCE_US, rel=0.15), step_us


@pytest.mark.parametrize("speed", [0.25, 0.5, 2.0])
def test_costs_are_those_of_processors_as_fast_as_the_executors(speed: float) -> None:
    some = tried(manifests(), on_executors(speed)).record.trials["some"]
    assert evaluation_us(some) == pytest.approx(REFERENCE_US / speed, rel=0.1)
    assert some.speed == pytest.approx(speed)


def test_what_was_tried_costs_more_once_executors_have_become_slower() -> None:
    record = tried(manifests(), on_executors(1.0)).record
    streams, queries = {"north": manifests().streams[0].record}, {record.name: record}
    flow = dataflow(streams, queries)
    before, after = (
        workload(on_executors(speed).view(), flow, streams, queries).fragments["some"]
        for speed in (1.0, 0.5)
    )
    assert after.cost.fixed_us == pytest.approx(2 * before.cost.fixed_us)
    assert after.cost.per_tuple_us == pytest.approx(2 * before.cost.per_tuple_us)
    # Sub-deadlines, and what hosts are assigned, stay as they are.
    assert (after.cost_us, after.instance_ms) == (before.cost_us, before.instance_ms)


def test_first_evaluations_may_take_as_long_as_libraries_take_to_load() -> None:
    # The first thirty readings are 40 ms apart, the others 0.1 ms.
    clock = chain(range(0, 30 * 40_000, 40_000), count(30 * 40_000, 100)).__next__
    (query,) = with_trials(ObedientCluster().view(), manifests(), clock).queries
    assert query.record.trials.keys() == {"some", "counted"}
    assert query.record.trials["some"].fixed_us < 1_000


def test_a_trial_ends_whose_first_evaluations_take_for_ever() -> None:
    readings = count(0, 800_000)
    assert (
        not with_trials(ObedientCluster().view(), manifests(), readings.__next__)
        .queries[0]
        .record.trials
    )
    assert next(readings) < 20 * 800_000


def test_a_trial_goes_on_while_a_statement_has_had_too_little() -> None:
    # It gets tuples once in ten portions; on a slow machine, a portion takes 5 ms.
    rarely = STATEMENTS.replace("[RANGE 1 SECOND]", "[RANGE 1 SECOND SLIDE 100 MILLISECONDS]")
    more = f"{rarely}REGISTER QUERY more RSTREAM(SELECT number FROM counted [NOW]);"
    query = query_manifest(statements=more, outputs={"more": "control-centre"})
    given = msgspec.structs.replace(manifests(), queries=(query,))
    clock = count(0, 400).__next__
    (query,) = with_trials(ObedientCluster().view(), given, clock).queries
    assert query.record.trials.keys() == {"some", "counted", "more"}


def test_of_many_queries_that_have_too_little_all_are_tried() -> None:
    queries = tuple(
        query_manifest(
            name=f"query-{n}",
            statements=f"""\
REGISTER QUERY some_{n} RSTREAM(SELECT id, x FROM north [NOW] WHERE x >= 1000);
REGISTER QUERY counted_{n} ISTREAM(SELECT count(*) AS number FROM some_{n} [RANGE 1 SECOND]);
""",
            outputs={f"counted_{n}": "control-centre"},
        )
        for n in range(12)
    )
    given = msgspec.structs.replace(manifests(), queries=queries)
    found = with_trials(ObedientCluster().view(), given, ticking(500)).queries
    assert [n for n, each in enumerate(found) if f"some_{n}" not in each.record.trials] == []


def test_texts_that_are_longer_than_planned_count_as_they_are() -> None:
    longer = STATEMENTS.replace("SELECT id", f"SELECT concat(id, '{'-' * 59}') AS id")
    given = manifests(statements=longer)
    found = tried(given)
    some = found.record.trials["some"]
    # Timestamp, float, and a text of 64 bytes with its offset.
    assert some.row_bytes is not None
    assert some.row_bytes == pytest.approx(8 + 8 + 68, abs=1)
    assert some.selectivity == pytest.approx(0.5 * 84 / 32, rel=0.2)
    assert found.record.trials["counted"].row_bytes is None
    streams, queries = {"north": given.streams[0].record}, {found.record.name: found.record}
    rate = rates(dataflow(streams, queries), streams, queries, 10.0)["some"]
    assert rate.bytes_s == pytest.approx(rate.tuples_s * some.row_bytes)
    assert rate.tuples_s == pytest.approx(0.5 * RATE, rel=0.2)


def test_a_recording_is_tried_if_it_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "north.parquet"
    rows = pa.RecordBatch.from_pylist(
        [
            {"timestamp": 5 * number, "id": "ab"[number % 2], "x": 60.0 if number % 4 == 0 else 1.0}
            for number in range(1000)
        ]
    )
    parquet.write_table(pa.Table.from_batches([rows]), path)
    replay = Replay(path=str(path), begin_ms=0, end_ms=4999, interval_ms=50)
    trials = tried(manifests(replay)).record.trials
    assert trials["some"].selectivity == pytest.approx(0.25, abs=0.02)


def test_streams_of_different_pace_are_tried_at_the_same_time_of_theirs(tmp_path: Path) -> None:
    begin_ms = 1_700_000_000_000
    every_ms = 1000
    times = [begin_ms + every_ms * n for n in range(100)]
    rows = pa.RecordBatch.from_pylist([{"timestamp": at, "id": "a", "x": 1.0} for at in times])
    path = str(tmp_path / "recorded.parquet")
    parquet.write_table(pa.Table.from_batches([rows]), path)
    replay = Replay(path=path, begin_ms=begin_ms, end_ms=times[-1], interval_ms=every_ms)
    given = manifests(
        replay,
        statements="REGISTER QUERY counted RSTREAM(SELECT id, x FROM north [NOW]"
        " UNION ALL SELECT id, x FROM south [NOW]);",
    )
    south = msgspec.structs.replace(stream().record, name="south")
    given = msgspec.structs.replace(
        given, streams=(*given.streams, StreamManifest(file="streams.yaml:2", record=south))
    )
    found = with_trials(ObedientCluster().view(), given, ticking()).queries[0].record.trials
    # Although the recorded one brings a second while the other one brings ten milliseconds.
    assert found["counted"].selectivity == pytest.approx(1.0, rel=0.01)


def test_a_recording_that_is_elsewhere_does_not_hinder(tmp_path: Path) -> None:
    replay = Replay(path=str(tmp_path / "gone.parquet"), begin_ms=0, end_ms=4999)
    assert tried(manifests(replay)).record.trials.keys() == {"some", "counted"}


def test_stated_costs_need_no_trial_and_go_before_it() -> None:
    stated = {name: Estimate(cost_us=7.0, selectivity=0.5) for name in ("some", "counted")}
    assert tried(manifests(estimates=stated)).record.trials == {}
    half = tried(manifests(estimates={"some": Estimate(cost_us=7.0)})).record
    view = ObedientCluster().view()
    given = manifests()
    streams = {each.record.name: each.record for each in given.streams}
    queries = {half.name: half}
    work = workload(view, dataflow(streams, queries), streams, queries).fragments
    assert work["some"].cost.basis is CostBasis.STATED
    assert work["some"].cost.per_tuple_us == 7.0
    assert work["counted"].cost.basis is CostBasis.TRIED


def test_selectivities_that_are_not_stated_are_tried_even_if_costs_are() -> None:
    # Who writes the measured costs into a manifest must not lose what was known of selectivities.
    record = tried(
        manifests(estimates={name: Estimate(cost_us=7.0) for name in ("some", "counted")})
    ).record
    assert record.trials["some"].selectivity < 1


def test_emulated_costs_are_not_tried() -> None:
    cluster = ObedientCluster()
    found = cluster.store.get(CLUSTER)
    assert found is not None
    emulated = msgspec.structs.replace(found.record, emulate_costs=True)
    cluster.store.update(CLUSTER, emulated, found.version)
    assert tried(manifests(), cluster).record.trials == {}


def test_what_was_tried_is_kept_when_the_same_manifest_is_applied_again() -> None:
    cluster = ObedientCluster()
    given = with_trials(cluster.view(), manifests(), ticking())
    cluster.apply(given)
    cluster.settle()
    again = with_trials(cluster.view(), manifests(), ticking())
    assert again.queries[0].record.trials == {}
    found = admit(cluster.view(), again.streams, again.queries)
    assert not found.submissions
    assert not found.waiting
    kept = cluster.view().query_records["proximity"].trials
    assert all(isinstance(each, Trial) for each in kept.values())
    assert kept.keys() == {"some", "counted"}
