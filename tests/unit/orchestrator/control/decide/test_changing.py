"""Changes of queries that run: what they do is said before, and any leader carries them out."""

from __future__ import annotations

import msgspec
import pytest

from foundation.timestamps import timestamp_text
from orchestrator.control.decide.admission import admit
from orchestrator.control.observe.view import ClusterView
from orchestrator.errors import InvalidInput
from orchestrator.records import (
    ApplyRequest,
    BeginFrom,
    ChangedQuery,
    FragmentRecord,
    ProposalRecord,
    QueryManifest,
    QueryRecord,
    Restoration,
    SavepointPiece,
    SavepointRecord,
    SavepointState,
    StatementEffect,
)
from orchestrator.store.protocol import FRAGMENTS, SAVEPOINTS
from streams.vectors.chunk import NO_WATERMARK
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft, short_reigns

KEPT = ("WHERE x > 0", "WHERE x > 1")
WINDOW = ("[PARTITION BY id ROWS 1] AS b", "[PARTITION BY id ROWS 2] AS b")
STREAM = ("FROM south [NOW]", "FROM north [NOW]")


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.apply(aircraft())
    made.settle()
    return made


def running(cluster: ObedientCluster) -> QueryRecord:
    return cluster.view().queries["proximity"].record


def fragments(view: ClusterView) -> dict[str, FragmentRecord]:
    return {name: found.record for name, found in view.fragments.items()}


def rewritten(query: QueryRecord, *texts: tuple[str, str]) -> QueryRecord:
    statements = query.statements
    for before, after in texts:
        assert before in statements
        statements = statements.replace(before, after)
    return msgspec.structs.replace(query, statements=statements)


def manifest(query: QueryRecord) -> QueryManifest:
    return QueryManifest(file="query.yaml:1", record=query, statements_line=10)


def proposed(
    cluster: ObedientCluster, query: QueryRecord, begin: BeginFrom = BeginFrom.NOW
) -> ProposalRecord:
    return cluster.ask(ApplyRequest(queries=(manifest(query),), begin=begin))


def told(proposal: ProposalRecord) -> ChangedQuery:
    assert proposal.refusal is None, proposal.refusal
    assert proposal.plan is not None
    (changed,) = proposal.plan.changed
    return changed


def effects(changed: ChangedQuery) -> dict[str, tuple[StatementEffect, str]]:
    return {each.fragment: (each.effect, each.why) for each in changed.statements}


def test_what_becomes_of_each_statement_is_said_before(cluster: ObedientCluster) -> None:
    query = rewritten(running(cluster), WINDOW, ("x FROM north [NOW]", "-x AS x FROM north [NOW]"))
    found = effects(told(proposed(cluster, query)))
    assert found == {
        "north_tracks": (StatementEffect.KEPT, ""),
        "south_tracks": (StatementEffect.UNCHANGED, ""),
        "alerts": (StatementEffect.ANEW, "its windows differ"),
    }
    assert running(cluster) != query


def test_a_statement_may_come_and_go(cluster: ObedientCluster) -> None:
    before = running(cluster)
    counting = " REGISTER QUERY counts ISTREAM(SELECT count(*) AS n FROM alerts [RANGE 1 MINUTE]);"
    more = msgspec.structs.replace(before, statements=before.statements + counting)
    found = effects(told(proposed(cluster, more)))
    assert found["counts"] == (StatementEffect.NEW, "")
    cluster.consent()
    cluster.settle()
    first = fragments(cluster.view())["proximity.counts"]
    assert first.epoch > fragments(cluster.view())["proximity.alerts"].epoch
    for query in (before, more):
        proposal = proposed(cluster, query)
        if query == before:
            assert effects(told(proposal))["counts"] == (StatementEffect.REMOVED, "")
        cluster.consent()
        cluster.settle()
    # It is newer than all that it ever was.
    assert fragments(cluster.view())["proximity.counts"].epoch > first.epoch


def test_another_deadline_changes_sub_deadlines_and_nothing_else(
    cluster: ObedientCluster,
) -> None:
    before = fragments(cluster.view())
    query = msgspec.structs.replace(running(cluster), deadline_ms=400.0, recovery_bound_ms=250.0)
    changed = told(proposed(cluster, query))
    assert [(each.field, each.was, each.now) for each in changed.fields] == [
        ("deadline", "300 ms", "400 ms"),
        ("recovery", "300 ms", "250 ms"),
    ]
    assert {effect for effect, _ in effects(changed).values()} == {StatementEffect.UNCHANGED}
    assert changed.moves == 0
    cluster.consent()
    cluster.settle()
    assert running(cluster) == query
    for name, record in fragments(cluster.view()).items():
        was = before[name]
        assert (record.epoch, record.primary, record.secondary) == (
            was.epoch,
            was.primary,
            was.secondary,
        )
        assert record.timing.sub_deadline_ms > was.timing.sub_deadline_ms


def test_a_node_that_the_query_names_moves_the_primary_there(cluster: ObedientCluster) -> None:
    record = fragments(cluster.view())["proximity.alerts"]
    taken = {each.node for each in record.replicas}
    node = next(name for name in EXECUTORS if name not in taken)
    query = msgspec.structs.replace(running(cluster), primaries={"alerts": (node,)})
    assert told(proposed(cluster, query)).moves > 0
    cluster.consent()
    cluster.settle()
    assert fragments(cluster.view())["proximity.alerts"].primary.node == node


@pytest.mark.parametrize(
    "other", ["a.id AS one, b.id AS second", "b.id AS second, a.id AS first"], ids=["name", "order"]
)
def test_a_stream_with_other_columns_is_refused(cluster: ObedientCluster, other: str) -> None:
    query = rewritten(running(cluster), ("a.id AS first, b.id AS second", other))
    with pytest.raises(InvalidInput, match="go on with its columns, first string") as caught:
        admit(cluster.view(), [], [manifest(query)])
    assert caught.value.value == "alerts"
    assert "another name" in caught.value.remedy


def test_a_query_that_is_being_changed_is_not_changed_again(cluster: ObedientCluster) -> None:
    query = rewritten(running(cluster), KEPT)
    proposed(cluster, query)
    cluster.consent()
    cluster.settle_coordinator()
    assert fragments(cluster.view())["proximity.north_tracks"].changing is not None
    refusal = cluster.ask(
        ApplyRequest(queries=(manifest(rewritten(query, WINDOW)),)), "another"
    ).refusal
    assert refusal is not None
    assert refusal.problem.startswith("is being changed: ")


def reach(cluster: ObedientCluster, watermarks_ms: dict[str, int]) -> None:
    """Hosts have evaluated their input up to there."""
    for name, watermark_ms in watermarks_ms.items():
        host = cluster.hosts[name]
        replicas = {
            fragment: msgspec.structs.replace(status, output_watermark_ms=watermark_ms)
            for fragment, status in host.record.replicas.items()
        }
        host.tell(replicas=replicas)


def test_the_cut_is_the_greatest_promise_and_one_for_all(cluster: ObedientCluster) -> None:
    reach(cluster, {name: 1000 + 10 * at for at, name in enumerate(EXECUTORS)})
    query = rewritten(running(cluster), KEPT, WINDOW)
    proposed(cluster, query)
    cluster.consent()
    cluster.settle()
    view = cluster.view()
    changed = [record for record in fragments(view).values() if record.former]
    assert {record.fragment for record in changed} == {"north_tracks", "south_tracks", "alerts"}
    cuts = {record.former[-1].until_ms for record in changed}
    nodes = {replica.node for record in changed for replica in record.replicas}
    assert cuts == {max(1000 + 10 * EXECUTORS.index(node) for node in nodes)}
    assert {each.former[-1].keeps for each in changed if each.fragment == "alerts"} == {False}
    events = [entry.event for entry in cluster.store.history()]
    (whole,) = (event for event in events if event.kind == "changed")
    assert whole.subject == "query proximity"
    assert "alerts begins anew: its windows differ" in whole.detail
    told_of = {event.subject: event.detail for event in events if event.kind == "statement changed"}
    (cut_ms,) = cuts
    assert cut_ms is not None
    assert told_of["proximity.alerts"] == f"after {timestamp_text(cut_ms)}; it begins anew"
    # Nothing can be of the former statements once all have come further.
    reach(cluster, dict.fromkeys(EXECUTORS, 5000))
    cluster.settle()
    assert all(not record.former for record in fragments(cluster.view()).values())


def test_a_savepoint_that_is_being_copied_has_the_former_statements_that_its_states_are_of(
    cluster: ObedientCluster,
) -> None:
    """Its index gets the fragments' records once all files are copied, which may take longer than
    the lists of checkpoints go back."""
    reach(cluster, dict.fromkeys(EXECUTORS, 1000))
    proposed(cluster, rewritten(running(cluster), KEPT))
    cluster.consent()
    cluster.settle()
    piece = SavepointPiece(
        fragment="proximity.north_tracks", checkpoint="1-1000-n1", at_us=1, bytes=1
    )
    key = SAVEPOINTS.key("before")
    copying = SavepointRecord(
        name="before", asked_us=1, state=SavepointState.COPYING, pieces=(piece,)
    )
    cluster.store.create(key, copying)
    reach(cluster, dict.fromkeys(EXECUTORS, 5000))
    cluster.settle()
    former = {name: each.former for name, each in fragments(cluster.view()).items()}
    assert [name for name in former if former[name]] == ["proximity.north_tracks"]
    kept = msgspec.structs.replace(copying, state=SavepointState.KEPT)
    cluster.store.update(key, kept, 0)
    cluster.settle()
    assert not any(each.former for each in fragments(cluster.view()).values())


def go_on_from_checkpoints(cluster: ObedientCluster, *names: str) -> None:
    for name in names:
        found = cluster.view().fragments[f"proximity.{name}"]
        restored = Restoration(epoch=found.record.epoch, checkpoint="1-1000-n1.checkpoint")
        record = msgspec.structs.replace(found.record, restored=restored)
        cluster.store.update(FRAGMENTS.key(record.key), record, found.version)


def test_the_cut_lies_after_what_readers_had_of_fragments_that_went_back(
    cluster: ObedientCluster,
) -> None:
    """Two go on from checkpoints. The one that changes promises from there on, and its reader knows
    no more what it had of it: what that one has sent on counts."""
    reach(cluster, dict.fromkeys(EXECUTORS, 1000))
    go_on_from_checkpoints(cluster, "north_tracks", "alerts")
    proposed(cluster, rewritten(running(cluster), KEPT))
    cluster.consent()
    cluster.settle()
    assert all(each.former[-1].until_ms is None for each in changed(cluster))
    assert "once all readers of proximity.alerts have said" in str(cluster.coordination.problems)
    record = fragments(cluster.view())["proximity.alerts"]
    host = cluster.hosts[record.primary.node]
    replica = msgspec.structs.replace(host.record.replicas["alerts"], readers_ms=9000)
    host.tell(replicas={**host.record.replicas, "alerts": replica})
    cluster.settle()
    assert {each.former[-1].until_ms for each in changed(cluster)} == {9000}


def changed(cluster: ObedientCluster) -> list[FragmentRecord]:
    return [each for each in fragments(cluster.view()).values() if each.former]


def test_no_cut_is_agreed_while_a_replica_has_promised_nothing(cluster: ObedientCluster) -> None:
    proposed(cluster, rewritten(running(cluster), KEPT))
    cluster.consent()
    cluster.settle_coordinator()
    changing = [each for each in fragments(cluster.view()).values() if each.changing is not None]
    assert {each.fragment for each in changing} == {"north_tracks", "south_tracks"}
    first = {each.primary.node for each in changing}
    for name in first:
        cluster.hosts[name].obey()
    cluster.settle_coordinator()
    still = [each for each in fragments(cluster.view()).values() if each.changing is not None]
    assert still == changing
    cluster.settle()
    assert all(each.changing is None for each in fragments(cluster.view()).values())


def test_a_statement_that_reads_another_stream_begins_anew(cluster: ObedientCluster) -> None:
    before = fragments(cluster.view())["proximity.south_tracks"]
    query = rewritten(running(cluster), STREAM)
    found = effects(told(proposed(cluster, query)))
    assert found["south_tracks"] == (StatementEffect.ANEW, "it reads north, and read south")
    cluster.consent()
    cluster.settle()
    now = fragments(cluster.view())["proximity.south_tracks"]
    assert now.generation == now.epoch > before.epoch
    assert now.restart is None
    assert now.primary == before.primary
    host = cluster.assignment(now.primary.node)
    (assigned,) = (each for each in host.fragments if each.fragment == "south_tracks")
    assert assigned.inputs.keys() == {"north"}
    assert assigned.begins is not None


def test_from_the_beginning_all_input_is_read_again(cluster: ObedientCluster) -> None:
    query = rewritten(running(cluster), WINDOW)
    assert told(proposed(cluster, query, BeginFrom.BEGINNING)).begin is BeginFrom.BEGINNING
    cluster.consent()
    cluster.settle()
    record = fragments(cluster.view())["proximity.alerts"]
    assert record.begins is not None
    assert record.begins.after_ms == NO_WATERMARK
    assert not record.former


@pytest.mark.parametrize("texts", [(KEPT, WINDOW), (STREAM, WINDOW)])
def test_leader_killed_at_every_write_of_a_change(
    cluster: ObedientCluster, texts: tuple[tuple[str, str], ...]
) -> None:
    query = rewritten(running(cluster), *texts)
    proposed(cluster, query)
    cluster.consent()
    count = 0
    for _ in range(5):
        for _ in short_reigns(cluster):
            count += 1
        for host in cluster.hosts.values():
            host.obey()
    assert count > 6
    assert running(cluster) == query
    for record in fragments(cluster.view()).values():
        assert record.changing is None
        assert record.restart is None
        assert len(record.former) <= 1


def test_a_change_is_undone_by_applying_what_was_before(cluster: ObedientCluster) -> None:
    before = running(cluster)
    after = rewritten(before, KEPT)
    for query in (after, before):
        proposed(cluster, query)
        cluster.consent()
        cluster.settle()
        assert running(cluster) == query
    record = fragments(cluster.view())["proximity.north_tracks"]
    assert len(record.former) == 2
    assert record.former[0].change < record.former[1].change
