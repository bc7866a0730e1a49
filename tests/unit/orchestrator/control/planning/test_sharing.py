"""Which statements a query takes from another one, and that a running query keeps it."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec
import pytest

from orchestrator import api
from orchestrator.cli.render.plan import plan_view
from orchestrator.control.decide.proposing import plan_document
from orchestrator.control.observe.dataflow import InvalidQuery, dataflow
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.trying import ALL_US
from orchestrator.errors import InvalidInput, Refused
from orchestrator.manifest import Manifests, QueryManifest, StreamManifest
from orchestrator.records import Estimate, OnError, Partial, StreamRecord
from placement.errors import NoNode
from placement.records import Plan
from tests.decided import Decided
from tests.obedient_cluster import ObedientCluster, query_manifest
from tests.unit.orchestrator.api.test_operations import connected
from tests.unit.orchestrator.cli.render.test_loads import shown

FIRST = """\
REGISTER QUERY large RSTREAM(SELECT id, size FROM north [NOW] WHERE size > 5);
REGISTER QUERY totals RSTREAM(SELECT id, count(*) AS number, sum(size) AS total
    FROM large [RANGE 10 SECONDS SLIDE 100 MILLISECONDS] GROUP BY id);
"""
SECOND = """\
REGISTER QUERY big RSTREAM(SELECT id, size FROM north [NOW] WHERE size > 5);
REGISTER QUERY sums RSTREAM(SELECT sum(size) AS amount, id
    FROM big [RANGE 10 SECONDS SLIDE 100 MILLISECONDS] GROUP BY id);
"""
FORWARDS = "REGISTER QUERY sums RSTREAM(SELECT total AS amount, id AS id FROM totals [NOW]);"


def query(name: str, statements: str, output: str, **changes: Any) -> QueryManifest:
    made = query_manifest(
        name, statements, outputs={output: "control-centre"}, deadline_ms=1000.0,
        recovery_bound_ms=2000.0,
    )  # fmt: skip
    fields: dict[str, Any] = {"share": True, "partial": Partial.NEVER} | changes
    return msgspec.structs.replace(made, record=msgspec.structs.replace(made.record, **fields))


def first(**changes: Any) -> QueryManifest:
    return query("first", FIRST, "totals", **changes)


def second(statements: str = SECOND, output: str = "sums", **changes: Any) -> QueryManifest:
    return query("second", statements, output, **changes)


def manifests(*queries: QueryManifest) -> Manifests:
    north = StreamRecord(
        name="north",
        site="north-receiver",
        columns={"id": "string", "size": "int"},
        rate_bytes_s=64_000,
    )
    return Manifests(
        cluster=None,
        streams=(StreamManifest(file="streams.yaml:1", record=north),),
        queries=queries,
    )


def decided(*queries: QueryManifest, cluster: ObedientCluster | None = None) -> Decided:
    return Decided.of(manifests(*queries), cluster)


def test_what_another_query_computes_is_forwarded_and_nothing_else_is_made() -> None:
    found = decided(first(), second())
    assert not found.shared("first")
    (shared,) = found.shared("second")
    assert (shared.fragment, shared.statements) == ("sums", (FORWARDS,))
    assert shared.without == ("big",)
    assert shared.why.startswith("query first computes it; network usage ")
    assert found.running("second").trials.keys() == {"sums"}
    assert found.fragments == ["large", "sums", "totals"]
    document = plan_document(ObedientCluster().view(), found.admission)
    assert document.rewrites == {"second": (shared,)}
    assert f"sums is shared: {shared.why}" in shown(plan_view(document))


def test_a_query_that_runs_computes_for_those_that_come_later() -> None:
    cluster = ObedientCluster()
    decided(first(), cluster=cluster).apply_to(cluster)
    cluster.settle()
    found = decided(second(), cluster=cluster)
    assert found.shared("second")
    found.apply_to(cluster)
    cluster.settle()
    running = {each.record.fragment for each in cluster.view().fragments.values()}
    assert running == {"large", "totals", "sums"}
    again = decided(second(), cluster=cluster)
    assert again.running("second") == found.running("second")
    assert not again.admission.placements
    with pytest.raises(InvalidInput, match="makes streams that second reads or shares"):
        api.delete(connected(cluster), "first", on_progress=cluster.step)
    api.delete(connected(cluster), "second", on_progress=cluster.step)
    api.delete(connected(cluster), "first", on_progress=cluster.step)


def test_what_runs_counts_as_it_was_decided_also_if_it_is_applied_again() -> None:
    cluster = ObedientCluster()
    decided(first(), second(), cluster=cluster).apply_to(cluster)
    cluster.settle()
    third = query("third", SECOND.replace("big", "huge").replace("sums", "other"), "other")
    found = decided(first(), second(), third, cluster=cluster)
    (shared,) = found.shared("third")
    assert "FROM totals [NOW]" in shared.statements[0]


def test_the_same_rows_over_and_over_come_from_where_they_are_computed() -> None:
    third = query(
        "third", SECOND.replace("big", "huge").replace("sums", "other"), "other"
    )  # fmt: skip
    found = decided(first(), second(), third)
    (shared,) = found.shared("third")
    assert "FROM totals [NOW]" in shared.statements[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (first(share=False), second()),
        (first(), second(share=False)),
        (first(), second(SECOND.replace("10 SECONDS", "20 SECONDS"))),
        (first(), second(SECOND.replace("size > 5", "size > 6"))),
        (first(), second(SECOND.replace("sum(size)", "max(size)"))),
        (first(), second(SECOND.replace("[NOW] WHERE", "[ROWS 3] WHERE"))),
        (first(), second(estimates={"sums": Estimate(cost_us=1.0)})),
        (first(), second(primaries={"sums": ("lyon",)})),
        (first(on_error=OnError.SKIP), second()),
        (first(on_error=OnError.SKIP), second(on_error=OnError.SKIP)),
    ],
)
def test_what_nobody_offers_or_computes_is_computed_apart(
    one: QueryManifest, other: QueryManifest
) -> None:
    found = decided(one, other)
    assert not found.shared("second")
    assert found.fragments == ["big", "large", "sums", "totals"]


def test_selections_are_not_worth_sharing() -> None:
    """They keep no state, and forwarding costs as much."""
    found = decided(first(), second(SECOND.replace("RANGE 10", "RANGE 20")))
    assert not found.shared("second")


def test_a_statement_that_somebody_else_needs_is_made_too() -> None:
    reader = "REGISTER QUERY seen RSTREAM(SELECT id FROM big [NOW]);\n"
    found = decided(first(), second(SECOND + reader))
    assert found.fragments == ["big", "large", "seen", "sums", "totals"]
    named = decided(first(), second(estimates={"big": Estimate(cost_us=1.0)}))
    assert "big" in named.fragments
    elsewhere = query("third", "REGISTER QUERY ids RSTREAM(SELECT id FROM big [NOW]);", "ids")
    several = decided(first(), second(), elsewhere)
    assert "big" in several.fragments


def test_what_is_not_made_cannot_be_read_later() -> None:
    found = decided(first(), second())
    elsewhere = query("third", "REGISTER QUERY ids RSTREAM(SELECT id FROM big [NOW]);", "ids")
    queries = {each.record.name: each.record for each in (first(), second(), elsewhere)}
    streams = {each.record.name: each.record for each in manifests().streams}
    with pytest.raises(InvalidQuery, match=r"'big' is not made.*`share: false`") as refused:
        dataflow(streams, queries, found.admission.running)
    assert refused.value.query == "third"


def test_only_the_output_of_a_chain_is_forwarded_if_its_beginning_is_an_output_too() -> None:
    statements = SECOND + "REGISTER QUERY last RSTREAM(SELECT id FROM sums [ROWS 5]);\n"
    found = decided(
        first(),
        second(statements, "last", outputs={"sums": "control-centre", "last": "control-centre"}),
    )
    assert [each.fragment for each in found.shared("second")] == ["sums"]
    assert found.fragments == ["large", "last", "sums", "totals"]


def test_sharing_that_would_break_the_deadline_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Planning.place

    def too_late_if_shared(planning: Planning, name: str, **how: bool) -> Plan:
        if name == "second" and planning.decided["second"].rewrites:
            raise NoNode(name, "sums", "none is near enough")
        return place(planning, name, **how)

    monkeypatch.setattr(Planning, "place", too_late_if_shared)
    found = decided(first(), second())
    (shared,) = found.shared("second")
    assert not shared.made
    assert shared.why == (
        "query first computes it, but so it cannot keep deadline and bound, or finds no room"
    )
    assert found.fragments == ["big", "large", "sums", "totals"]
    document = plan_document(ObedientCluster().view(), found.admission)
    assert "sums is not shared: query first computes it, but" in shown(plan_view(document))


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("REGISTER QUERY seen RSTREAM(SELECT idd FROM big [NOW]);", "has no column idd"),
        ("REGISTER QUERY nonsense;", "line 1"),
    ],
)
def test_mistakes_are_named_before_anything_is_shared(statement: str, problem: str) -> None:
    """Else what only the wrong statement reads would not be made, and that be blamed."""
    with pytest.raises(InvalidInput, match=problem):
        decided(first(), second(), query("third", statement, "seen"))


@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        ("REGISTER QUERY nonsense;", "line 1, column 24"),
        (FIRST.replace("count(*) AS number, ", ""), "Give the statement another name"),
    ],
)
def test_wrong_changes_of_what_runs_are_refused(statements: str, problem: str) -> None:
    cluster = ObedientCluster()
    decided(first(), cluster=cluster).apply_to(cluster)
    cluster.settle()
    with pytest.raises(InvalidInput, match=problem):
        decided(query("first", statements, "totals"), second(), cluster=cluster)


def test_what_a_query_computes_that_shares_something_itself_is_shared_too() -> None:
    last = "REGISTER QUERY last RSTREAM(SELECT max(amount) AS m FROM sums [RANGE 20 SECONDS]);\n"
    renamed = (SECOND + last).replace("big", "huge").replace("sums", "other")
    third = query("third", renamed.replace("last", "final"), "final")
    (shared,) = decided(first(), second(SECOND + last, "last"), third).shared("third")
    assert shared.fragment == "final"
    assert "FROM last [NOW]" in shared.statements[0]


def test_a_statement_that_runs_split_below_its_union_is_shared() -> None:
    union = (
        "REGISTER QUERY {0}u RSTREAM(SELECT id, size FROM north [NOW] "
        "UNION ALL SELECT id, size FROM north [NOW] WHERE size < 9);\n"
        "REGISTER QUERY {0}m RSTREAM(SELECT id, max(size) AS m "
        "FROM {0}u [RANGE 10 SECONDS SLIDE 1 SECOND] GROUP BY id);\n"
    )
    cluster = ObedientCluster()
    one = query("one", union.format("a"), "am", partial=Partial.ALWAYS)
    decided(one, cluster=cluster).apply_to(cluster)
    cluster.settle()
    assert "am__partial_1" in {f.name for f in cluster.view().dataflow.of("one")}
    two = query("two", union.format("b"), "bm", partial=Partial.ALWAYS)
    (shared,) = decided(two, cluster=cluster).shared("two")
    assert (shared.fragment, shared.made) == ("bm", True)


LATEST = "REGISTER QUERY {} RSTREAM(SELECT id, size FROM north [ROWS 20]);"


def test_queries_are_priced_beside_those_that_are_applied_with_them() -> None:
    """The stream flows to the first one's nodes anyway, so the second one costs little apart."""
    wide = manifests(query("one", LATEST.format("a"), "a"), query("two", LATEST.format("b"), "b"))
    (stream,) = wide.streams
    busy = msgspec.structs.replace(stream.record, rate_bytes_s=1_000_000)
    wide = msgspec.structs.replace(wide, streams=(msgspec.structs.replace(stream, record=busy),))
    (shared,) = Decided.of(wide).shared("two")
    assert not shared.made
    assert "computes it, but network usage" in shared.why


def test_what_is_refused_shared_is_planned_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions are made one after the other; all of them together may be too much."""
    place = Planning.place

    def only_apart(planning: Planning, name: str, **how: bool) -> Plan:
        if name == "third" and planning.decided["second"].rewrites:
            raise NoNode(name, "third", "there is no room")
        return place(planning, name, **how)

    monkeypatch.setattr(Planning, "place", only_apart)
    third = query("third", LATEST.format("c"), "c", share=False)
    found = decided(first(), second(), third)
    assert not found.shared("second")
    assert len(found.admission.placements) == 3
    monkeypatch.undo()
    with pytest.raises(Refused):
        decided(first(deadline_ms=1.0), second())


def test_many_at_once_do_not_take_minutes() -> None:
    """Each that is shared is tried again."""
    many = [query(f"q{i}", LATEST.format(f"f{i}"), f"f{i}") for i in range(25)]
    at_us = count(0, 20_000)
    Decided.of(manifests(*many), processor_us=at_us.__next__)
    assert next(at_us) < 2 * ALL_US


def test_a_long_list_can_be_tried_and_compared() -> None:
    members = ", ".join(map(str, range(2000)))
    one, other = (LATEST.format(name).replace("]", f"] WHERE size IN ({members})") for name in "ab")
    found = decided(query("one", one, "a"), query("two", other, "b"))
    assert found.shared("two")


def test_a_partial_statement_that_is_named_names_the_whole_one() -> None:
    pinned: dict[str, Any] = {"partial": Partial.ALWAYS, "primaries": {"sums__partial": ("lyon",)}}
    found = decided(first(), second(**pinned))
    assert not found.shared("second")
    assert "sums__partial" in found.fragments


def test_a_query_depends_on_what_it_shares_and_nothing_else_of_its_owner() -> None:
    """Whether its results can be verified, and when its streams start, has to do with that only."""
    unrelated = "REGISTER QUERY other RSTREAM(SELECT id, size FROM south [NOW]);\n"
    one = query("first", FIRST + unrelated, "totals")
    given = manifests(one, second())
    (north,) = given.streams
    south = msgspec.structs.replace(
        north, record=msgspec.structs.replace(north.record, name="south")
    )
    given = msgspec.structs.replace(given, streams=(north, south))
    flow = Decided.of(given).admission.flow
    assert flow.entering_streams("first") == {"north", "south"}
    assert flow.entering_streams("second") == {"north"}
    assert [each.name for each in flow.upstream("second")] == ["large", "totals", "sums"]
