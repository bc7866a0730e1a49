from __future__ import annotations

from typing import Never

import msgspec
import pytest

from orchestrator.control.decide.admission import admit
from orchestrator.control.planning.planner import Planning
from orchestrator.errors import InvalidInput, Refused
from orchestrator.manifest import QueryManifest
from orchestrator.records import ClockOffset, ClocksRecord
from orchestrator.store.protocol import CLOCKS
from placement.errors import SolverStopped
from tests.obedient_cluster import (
    STATEMENTS,
    ObedientCluster,
    aircraft,
    query_manifest,
    stream_manifest,
)

STREAMS = aircraft().streams


@pytest.fixture
def cluster() -> ObedientCluster:
    return ObedientCluster()


def refusal(cluster: ObedientCluster, query: QueryManifest) -> Refused:
    with pytest.raises(Refused) as caught:
        admit(cluster.view(), STREAMS, [query])
    return caught.value


def test_plan_is_what_the_leader_then_does(cluster: ObedientCluster) -> None:
    plan = admit(cluster.view(), STREAMS, aircraft().queries).plan
    cluster.apply(aircraft())
    cluster.settle()
    assert {p.operator: (p.primary, p.secondary) for p in plan.placements} == {
        f.record.fragment: (f.record.primary.node, f.record.secondary and f.record.secondary.node)
        for f in cluster.view().fragments.values()
    }
    again = admit(cluster.view(), STREAMS, aircraft().queries).plan
    assert [p.operator for p in again.placements] == [p.operator for p in plan.placements]


def put_sites_on_machines(cluster: ObedientCluster, apart_us: int) -> None:
    """The output's site is on another machine than the receivers."""
    ahead = {"here": 0, "there": 500}
    machines = {name: ClockOffset(ahead_us=us, uncertainty_us=0) for name, us in ahead.items()}
    machines["there"] = msgspec.structs.replace(machines["there"], uncertainty_us=apart_us)
    cluster.hosts["control-centre"].tell(machine="there")
    cluster.store.create(CLOCKS, ClocksRecord(machines=machines))


def test_deadline_below_the_uncertainty_of_clocks_is_refused_with_figures(
    cluster: ObedientCluster,
) -> None:
    put_sites_on_machines(cluster, apart_us=400_000)
    error = refusal(cluster, query_manifest(deadline_ms=300.0))
    assert (error.field, error.exit_status) == ("deadline", 2)
    assert error.figures == {"deadline_ms": 300.0, "uncertainty_ms": 400.0}
    for part in ("query proximity (query.yaml:1)", "within 400.0 ms", "Allow at least 401 ms"):
        assert part in str(error)
    admit(cluster.view(), STREAMS, [query_manifest(deadline_ms=401.0)])


def test_on_one_machine_no_deadline_is_too_short_for_the_clock(cluster: ObedientCluster) -> None:
    error = refusal(cluster, query_manifest(deadline_ms=0.5))
    assert "uncertainty_ms" not in error.figures


def test_nothing_is_admitted_while_the_clock_of_a_site_is_not_known(
    cluster: ObedientCluster,
) -> None:
    cluster.hosts["control-centre"].tell(machine="there")
    error = refusal(cluster, query_manifest())
    assert (error.field, error.exit_status) == ("outputs", 2)
    assert "clocks" in str(error)


def test_admission_writes_nothing(cluster: ObedientCluster) -> None:
    before = dict(cluster.server.entries)
    admit(cluster.view(), STREAMS, aircraft().queries)
    assert cluster.server.entries == before


def test_recovery_bound_no_node_can_keep_is_refused_with_figures(cluster: ObedientCluster) -> None:
    error = refusal(cluster, query_manifest(recovery_bound_ms=150.0))
    assert error.field == "recovery"
    assert error.exit_status == 2
    assert float(error.figures["best_ms"]) > 150.0
    message = str(error)
    for part in ("query proximity (query.yaml:1)", "150 ms", "detection 175.0", "Allow at least"):
        assert part in message


def test_a_refused_field_is_named_with_its_own_line(cluster: ObedientCluster) -> None:
    lines = {"recovery": (7, "150 ms"), "deadline": (6, "300 ms")}
    manifest = msgspec.structs.replace(query_manifest(recovery_bound_ms=150.0), written=lines)
    error = refusal(cluster, manifest)
    assert (error.subject, error.field) == ("query proximity (query.yaml:7)", "recovery")
    put_sites_on_machines(cluster, apart_us=400_000)
    error = refusal(cluster, msgspec.structs.replace(query_manifest(), written=lines))
    assert (error.subject, error.field) == ("query proximity (query.yaml:6)", "deadline")


def test_deadline_no_placement_meets_is_refused_with_the_path(cluster: ObedientCluster) -> None:
    error = refusal(cluster, query_manifest(deadline_ms=5.0))
    assert error.field == "deadline"
    assert "→ control-centre)" in str(error)


def test_solver_that_ran_out_of_time_is_told_by_the_field_that_helps(
    cluster: ObedientCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(_planning: Planning, query: str) -> Never:
        raise SolverStopped(query, "time limit")

    monkeypatch.setattr(Planning, "place", stopped)
    error = refusal(cluster, query_manifest())
    assert (error.field, error.value) == ("primaries", "none")
    assert "in time (time limit)" in str(error)
    assert error.remedy == "In `primaries`, name nodes for more fragments."


def test_without_a_second_executor_everything_is_refused() -> None:
    cluster = ObedientCluster(("paris", "north-receiver", "south-receiver", "control-centre"))
    error = refusal(cluster, query_manifest())
    assert (error.field, error.value) == ("nodes", 1)


def test_unknown_stream_names_line_of_the_file_and_the_nearest(cluster: ObedientCluster) -> None:
    query = query_manifest(statements=STATEMENTS.replace("FROM south [NOW]", "FROM suoth [NOW]"))
    with pytest.raises(InvalidInput) as caught:
        admit(cluster.view(), STREAMS, [query])
    # The second statement, of statements that begin on line 10.
    assert caught.value.file == "query.yaml:11"
    assert caught.value.field == "Query proximity: statements"
    assert "south" in str(caught.value)


@pytest.mark.parametrize(
    ("query", "field", "value", "part"),
    [
        (query_manifest(outputs={"alert": "control-centre"}), "outputs", "alert", "alerts?"),
        (
            query_manifest(outputs={"alerts": "control-center"}),
            "outputs.alerts",
            "control-center",
            "control-centre?",
        ),
        (
            query_manifest(statements="REGISTER QUERY north RSTREAM(SELECT * FROM south [NOW]);"),
            "statements",
            "north",
            "a stream already",
        ),
        (
            query_manifest(
                statements="REGISTER QUERY a RSTREAM(SELECT * FROM b [NOW]);"
                "REGISTER QUERY b RSTREAM(SELECT * FROM a [NOW]);"
                "REGISTER QUERY c RSTREAM(SELECT * FROM b [NOW]);",
                outputs={"c": "control-centre"},
            ),
            "statements",
            None,
            "a, b read each other at the same instant",
        ),
    ],
)
def test_wrong_names_are_found(
    cluster: ObedientCluster, query: QueryManifest, field: str, value: str | None, part: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        admit(cluster.view(), STREAMS, [query])
    assert caught.value.field == f"Query proximity: {field}"
    assert caught.value.value == value
    assert part in str(caught.value)


def test_a_loop_is_in_one_query(cluster: ObedientCluster) -> None:
    one, other = (
        query_manifest(
            name=name,
            statements=f"REGISTER QUERY {name} ISTREAM(SELECT * FROM {read} [NOW])<NOW>;",
            outputs={name: "control-centre"},
        )
        for name, read in (("here", "there"), ("there", "here"))
    )
    with pytest.raises(InvalidInput, match="of queries here, there read each other") as caught:
        admit(cluster.view(), STREAMS, [one, other])
    assert caught.value.remedy == "Write all of its statements in one query."


def test_a_stream_inside_a_loop_is_read_only_if_it_is_an_output(cluster: ObedientCluster) -> None:
    loop = query_manifest(
        name="loop",
        statements="REGISTER QUERY a ISTREAM(SELECT * FROM north [NOW] UNION ALL "
        "SELECT * FROM b [NOW]); REGISTER QUERY b ISTREAM(SELECT * FROM a [NOW])<NOW>;",
        outputs={"a": "control-centre"},
    )
    reader = query_manifest(
        name="reader",
        statements="REGISTER QUERY c ISTREAM(SELECT * FROM b [NOW]);",
        outputs={"c": "control-centre"},
    )
    with pytest.raises(InvalidInput, match="is inside a loop of query loop") as caught:
        admit(cluster.view(), STREAMS, [loop, reader])
    assert caught.value.remedy == "Name it in the outputs of query loop."


def test_stream_of_an_unknown_site_is_refused(cluster: ObedientCluster) -> None:
    with pytest.raises(InvalidInput, match="'east-receiver' is not a live site"):
        admit(cluster.view(), [stream_manifest("east")], [])


def test_name_of_another_querys_stream_is_taken(cluster: ObedientCluster) -> None:
    cluster.apply(aircraft())
    cluster.settle()
    for name in ("a-first", "second"):
        with pytest.raises(InvalidInput, match=f"Query {name}: .*is the name of query proximity"):
            admit(cluster.view(), [], [query_manifest(name)])


def test_a_stream_is_not_changed_and_all_queries_to_delete_are_named_readers_first(
    cluster: ObedientCluster,
) -> None:
    counting = query_manifest(
        "counting",
        "REGISTER QUERY counts ISTREAM(SELECT count(*) AS n FROM alerts [RANGE 1 MINUTE]);",
        outputs={"counts": "control-centre"},
    )
    both = msgspec.structs.replace(aircraft(), queries=(*aircraft().queries, counting))
    cluster.apply(both)
    cluster.settle()
    north = stream_manifest("north")
    faster = msgspec.structs.replace(north.record, rate_bytes_s=250_000.0)
    with pytest.raises(InvalidInput) as caught:
        admit(cluster.view(), [msgspec.structs.replace(north, record=faster)], [])
    deletions = "`vivace delete counting`, `vivace delete proximity`, then apply again."
    assert caught.value.remedy.endswith(deletions)


def test_query_may_read_another_querys_stream(cluster: ObedientCluster) -> None:
    counting = query_manifest(
        "counting",
        "REGISTER QUERY counts ISTREAM(SELECT count(*) AS n FROM alerts [RANGE 1 MINUTE]);",
        outputs={"counts": "control-centre"},
    )
    plan = admit(cluster.view(), STREAMS, [counting, *aircraft().queries]).plan
    assert [figures.query for figures in plan.queries] == ["proximity", "counting"]
