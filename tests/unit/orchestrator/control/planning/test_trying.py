"""What a trial of statements finds before they run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, count
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from orchestrator.control.observe.dataflow import dataflow
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.trying import StatementTrials
from orchestrator.control.planning.workload import CostBasis, rates, workload
from orchestrator.edges.sources import spec_of
from orchestrator.edges.sources.replay import Replay
from orchestrator.host.shell.processor_speed import REFERENCE_US
from orchestrator.manifest import Manifests, StreamManifest
from orchestrator.records import Estimate, HostLoad, RunningQueryRecord, StreamRecord, Tried
from orchestrator.store.protocol import CLUSTER
from tests.decided import Decided, by_clock, ticking
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


def of_new(
    given: Manifests, view: ClusterView, processor_us: Callable[[], int]
) -> dict[str, RunningQueryRecord]:
    streams = {each.record.name: each.record for each in given.streams}
    queries = {each.record.name: each.record for each in given.queries}
    trials = StatementTrials(view, by_clock(processor_us))
    return trials.of_new(queries, streams, queries, {})


def tried(
    given: Manifests,
    cluster: ObedientCluster | None = None,
    processor_us: Callable[[], int] | None = None,
) -> dict[str, Tried]:
    view = (cluster or ObedientCluster()).view()
    found = of_new(given, view, processor_us or ticking())
    return found["proximity"].trials if found else {}


def test_generated_rows_give_cost_and_selectivity() -> None:
    trials = tried(manifests())
    assert trials.keys() == {"some", "counted"}
    # Rows have values from 0 to 100, so half of them pass.
    assert trials["some"].selectivity == pytest.approx(0.5, abs=0.1)
    assert evaluation_us(trials["some"]) == pytest.approx(REFERENCE_US, rel=0.1)


def evaluation_us(some: Tried) -> float:
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
        cost_us = evaluation_us(tried(manifests(), processor_us=ticking(step_us))["some"])
        assert cost_us == pytest.approx(REFERENCE_US, rel=0.15), step_us


@pytest.mark.parametrize("speed", [0.25, 0.5, 2.0])
def test_costs_are_those_of_processors_as_fast_as_the_executors(speed: float) -> None:
    some = tried(manifests(), on_executors(speed))["some"]
    assert evaluation_us(some) == pytest.approx(REFERENCE_US / speed, rel=0.1)
    assert some.speed == pytest.approx(speed)


def test_what_was_tried_costs_more_once_executors_have_become_slower() -> None:
    running = of_new(manifests(), on_executors(1.0).view(), ticking())
    streams = {"north": manifests().streams[0].record}
    queries = {"proximity": manifests().queries[0].record}
    flow = dataflow(streams, queries)
    before, after = (
        workload(on_executors(speed).view(), flow, streams, queries, running).fragments["some"]
        for speed in (1.0, 0.5)
    )
    assert after.cost.fixed_us == pytest.approx(2 * before.cost.fixed_us)
    assert after.cost.per_tuple_us == pytest.approx(2 * before.cost.per_tuple_us)
    # Sub-deadlines, and what hosts are assigned, stay as they are.
    assert (after.cost_us, after.instance_ms) == (before.cost_us, before.instance_ms)


def test_first_evaluations_may_take_as_long_as_libraries_take_to_load() -> None:
    # The first thirty readings are 40 ms apart, the others 0.1 ms.
    clock = chain(range(0, 30 * 40_000, 40_000), count(30 * 40_000, 100)).__next__
    trials = tried(manifests(), processor_us=clock)
    assert trials.keys() == {"some", "counted"}
    assert trials["some"].fixed_us < 1_000


def test_a_trial_ends_whose_first_evaluations_take_for_ever() -> None:
    readings = count(0, 800_000)
    assert not tried(manifests(), processor_us=readings.__next__)
    assert next(readings) < 20 * 800_000


def test_a_trial_goes_on_while_a_statement_has_had_too_little() -> None:
    # It gets tuples once in ten portions; on a slow machine, a portion takes 5 ms.
    rarely = STATEMENTS.replace("[RANGE 1 SECOND]", "[RANGE 1 SECOND SLIDE 100 MILLISECONDS]")
    more = f"{rarely}REGISTER QUERY more RSTREAM(SELECT number FROM counted [NOW]);"
    query = query_manifest(statements=more, outputs={"more": "control-centre"})
    given = msgspec.structs.replace(manifests(), queries=(query,))
    trials = tried(given, processor_us=count(0, 400).__next__)
    assert trials.keys() == {"some", "counted", "more"}


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
    found = of_new(given, ObedientCluster().view(), ticking(500))
    assert [n for n in range(12) if f"some_{n}" not in found[f"query-{n}"].trials] == []


def test_texts_that_are_longer_than_planned_count_as_they_are() -> None:
    longer = STATEMENTS.replace("SELECT id", f"SELECT concat(id, '{'-' * 59}') AS id")
    given = manifests(statements=longer)
    running = of_new(given, ObedientCluster().view(), ticking())
    trials = running["proximity"].trials
    some = trials["some"]
    # Timestamp, float, and a text of 64 bytes with its offset.
    assert some.row_bytes is not None
    assert some.row_bytes == pytest.approx(8 + 8 + 68, abs=1)
    assert some.selectivity == pytest.approx(0.5 * 84 / 32, rel=0.2)
    assert trials["counted"].row_bytes is None
    streams = {"north": given.streams[0].record}
    queries = {"proximity": given.queries[0].record}
    flow = dataflow(streams, queries)
    rate = rates(flow, streams, queries, 10.0, running=running)["some"]
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
    trials = tried(manifests(replay))
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
    found = tried(given)
    # Although the recorded one brings a second while the other one brings ten milliseconds.
    assert found["counted"].selectivity == pytest.approx(1.0, rel=0.01)


def test_a_recording_that_is_elsewhere_does_not_hinder(tmp_path: Path) -> None:
    replay = Replay(path=str(tmp_path / "gone.parquet"), begin_ms=0, end_ms=4999)
    assert tried(manifests(replay)).keys() == {"some", "counted"}


def test_stated_costs_need_no_trial_and_go_before_it() -> None:
    stated = {name: Estimate(cost_us=7.0, selectivity=0.5) for name in ("some", "counted")}
    assert tried(manifests(estimates=stated)) == {}
    view = ObedientCluster().view()
    given = manifests(estimates={"some": Estimate(cost_us=7.0)})
    running = of_new(given, view, ticking())
    streams = {each.record.name: each.record for each in given.streams}
    queries = {each.record.name: each.record for each in given.queries}
    work = workload(view, dataflow(streams, queries), streams, queries, running).fragments
    assert work["some"].cost.basis is CostBasis.STATED
    assert work["some"].cost.per_tuple_us == 7.0
    assert work["counted"].cost.basis is CostBasis.TRIED


def test_selectivities_that_are_not_stated_are_tried_even_if_costs_are() -> None:
    # Who writes the measured costs into a manifest must not lose what was known of selectivities.
    stated = {name: Estimate(cost_us=7.0) for name in ("some", "counted")}
    assert tried(manifests(estimates=stated))["some"].selectivity < 1


def test_emulated_costs_are_not_tried() -> None:
    cluster = ObedientCluster()
    found = cluster.store.get(CLUSTER)
    assert found is not None
    emulated = msgspec.structs.replace(found.record, emulate_costs=True)
    cluster.store.update(CLUSTER, emulated, found.version)
    assert tried(manifests(), cluster) == {}


def test_what_was_tried_is_kept_when_the_same_manifest_is_applied_again() -> None:
    cluster = ObedientCluster()
    Decided.of(manifests(), cluster).apply_to(cluster)
    cluster.settle()
    again = Decided.of(manifests(), cluster, iter(()).__next__)
    assert not again.admission.placements
    assert not again.admission.waiting
    assert again.running("proximity").trials.keys() == {"some", "counted"}
