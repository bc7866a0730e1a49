"""What begins from a savepoint, what is refused, and what holds the savepoint then."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from orchestrator import api
from orchestrator.checkpoints.savepoint import kept_savepoint
from orchestrator.clock import now_us
from orchestrator.deploy.context import ClusterContext
from orchestrator.errors import Refused
from orchestrator.records import (
    ApplyRequest,
    FragmentRecord,
    ProposalRecord,
    Record,
    SavepointState,
)
from orchestrator.store.protocol import CHECKPOINTS, CLUSTER, QUERIES, REQUESTS, SAVEPOINTS, Key
from tests.saved_cluster import READ_AGAIN, SavedCluster

QUERY = "proximity"


@pytest.fixture
def saved(tmp_path: Path) -> SavedCluster:
    """The query was saved, and deleted."""
    made = SavedCluster(tmp_path / "state", source=READ_AGAIN)
    made.save()
    delete(made, QUERIES.key(QUERY))
    made.cluster.settle()
    assert not made.view.fragments
    return made


def delete(saved: SavedCluster, key: Key[Record]) -> None:
    found = saved.store.get(key)
    assert found is not None
    saved.store.delete(key, found.version)


def fragments(saved: SavedCluster) -> dict[str, FragmentRecord]:
    return {key: found.record for key, found in saved.view.fragments.items()}


def ask(saved: SavedCluster, savepoint: str = "before") -> ProposalRecord:
    manifests = saved.manifests
    wish = ApplyRequest(streams=manifests.streams, queries=manifests.queries, savepoint=savepoint)
    return saved.cluster.ask(wish)


def refused(saved: SavedCluster, savepoint: str = "before") -> str:
    """Problem and remedy; the input is wrong, and names the option."""
    refusal = ask(saved, savepoint).refusal
    assert refusal is not None
    assert (refusal.figures, refusal.where, refusal.field, refusal.value) == (
        None,
        "command line",
        "--from",
        savepoint,
    )
    assert QUERY not in saved.view.queries
    return f"{refusal.problem}. {refusal.remedy}"


def test_it_goes_on_where_it_is_told_in_its_generation(saved: SavedCluster) -> None:
    index = saved_fragments(saved)
    proposal = ask(saved)
    assert proposal.refusal is None
    saved.cluster.consent()
    saved.cluster.settle()
    now = fragments(saved)
    places = {
        record.key: (record.primary.node, record.secondary.node if record.secondary else None)
        for placed in proposal.placements
        for record in placed.created
    }
    for was in index:
        record = now[was.key]
        assert record.generation == was.generation
        assert record.epoch > was.epoch
        assert not record.paused
        assert record.restored is not None
        assert record.restored.checkpoint.startswith("before/")
        assert (record.primary.node, record.secondary and record.secondary.node) == places[was.key]
    view = saved.view
    assert view.life_of(QUERY) == index[0].generation < view.number_of(view.queries[QUERY])
    assert proposal.checkpoints
    running = view.running_queries[QUERY].record
    assert running.savepoint == "before"
    sinks = [sink for found in view.assignments.values() for sink in found.record.sinks]
    assert {sink.measured_from_us for sink in sinks} == {running.began_us} != {None}


def saved_fragments(saved: SavedCluster) -> tuple[FragmentRecord, ...]:
    """The fragments as the savepoint has them."""
    return kept_savepoint(saved.folder, "before").index.fragments


def test_whoever_applies_waits_until_it_has_begun(saved: SavedCluster) -> None:
    def follow(*_: str) -> None:
        saved.cluster.now_us = now_us()
        saved.cluster.settle()

    reach = ClusterContext(cluster="aircraft", pid=1, started_s=0.0, folder="nowhere")
    cluster = api.Cluster(reach, saved.store)
    planned = api.apply(
        cluster, saved.manifests, savepoint="before", dry_run=True, on_progress=follow
    )
    assert not saved.view.fragments
    applied = api.apply(cluster, saved.manifests, savepoint="before", on_progress=follow)
    assert applied.protected
    assert applied.plan.changed == planned.plan.changed
    assert not applied.planned_again, "it runs where it was planned"
    assert not any(each.paused for each in fragments(saved).values())
    (told,) = applied.plan.changed
    assert told.words() == tuple(
        f"{each} state kept" for each in ("north_tracks", "south_tracks", "alerts")
    )


def test_while_it_may_fall_back_on_it_the_savepoint_is_not_deleted(saved: SavedCluster) -> None:
    ask(saved)
    saved.cluster.consent()
    saved.cluster.settle()
    reach = ClusterContext(cluster="aircraft", pid=1, started_s=0.0, folder="nowhere")
    cluster = api.Cluster(reach, saved.store)
    with pytest.raises(Refused, match="is what proximity would go on from"):
        api.delete_savepoint(cluster, "before")
    # Another savepoint takes over what lies in this one.
    again = saved.save("again")
    assert len([*again.check()]) == len(saved.view.fragments)


def test_nor_is_it_deleted_while_the_query_waits_to_be_placed(saved: SavedCluster) -> None:
    ask(saved)
    saved.cluster.consent()
    saved.cluster.step()
    assert QUERY in saved.view.queries
    assert not saved.store.list(CHECKPOINTS).records
    reach = ClusterContext(cluster="aircraft", pid=1, started_s=0.0, folder="nowhere")
    cluster = api.Cluster(reach, saved.store)
    with pytest.raises(Refused, match="is what proximity would go on from"):
        api.delete_savepoint(cluster, "before")
    delete(saved, QUERIES.key(QUERY))
    saved.cluster.settle()

    def work(*_: str) -> None:
        saved.work.step()

    assert api.delete_savepoint(cluster, "before", work).savepoints == ()


def test_fragments_without_their_checkpoints_are_never_there(saved: SavedCluster) -> None:
    """Whichever write is the last one."""
    assert ask(saved).refusal is None
    saved.cluster.consent()
    for _ in range(100):
        paused = {key for key, each in fragments(saved).items() if each.paused}
        assert paused <= saved.view.checkpoints.keys()
        saved.cluster.step()


def test_a_savepoint_that_is_unknown_or_not_kept(saved: SavedCluster) -> None:
    assert refused(saved, "befor") == "is no savepoint of this cluster. Did you mean before?"
    key = SAVEPOINTS.key("before")
    found = saved.store.get(key)
    assert found is not None
    failed = structs.replace(found.record, state=SavepointState.FAILED)
    saved.store.update(key, failed, found.version)
    saved.cluster.step()
    delete(saved, request())
    saved.cluster.step()
    assert refused(saved).startswith("is a savepoint that is failed. `vivace savepoint list`")


def request() -> Key[Record]:
    return REQUESTS.key("asked")


def test_a_savepoint_of_another_cluster(saved: SavedCluster) -> None:
    found = saved.store.get(CLUSTER)
    assert found is not None
    saved.store.update(CLUSTER, structs.replace(found.record, id="second"), found.version)
    told = refused(saved)
    assert told.startswith("was taken of another cluster, aircraft (first). ")
    assert told.endswith("`vivace up --from`.")


def test_a_savepoint_whose_files_are_gone_or_damaged(saved: SavedCluster) -> None:
    folder = Path(saved.folder) / "savepoints" / "before"
    piece = folder / f"{QUERY}.alerts.piece"
    piece.write_bytes(piece.read_bytes()[:-1])
    assert f"{piece.name} is damaged: its checksum does not match" in refused(saved)
    delete(saved, request())
    saved.cluster.step()
    (folder / "index.json").unlink()
    assert "index.json is not in" in refused(saved)


def test_a_cluster_without_a_folder_of_checkpoints(saved: SavedCluster) -> None:
    found = saved.store.get(CLUSTER)
    assert found is not None
    saved.store.update(CLUSTER, structs.replace(found.record, state=None), found.version)
    assert "The cluster has no folder of checkpoints." in refused(saved)


def test_a_query_that_another_one_of_its_name_followed_has_a_life_of_its_own(
    saved: SavedCluster,
) -> None:
    """What was decided of the query that began from a savepoint goes with it."""
    ask(saved)
    saved.cluster.consent()
    saved.cluster.settle()
    delete(saved, QUERIES.key(QUERY))
    saved.cluster.settle()
    assert not saved.view.running_queries
    assert not saved.store.list(CHECKPOINTS).records
    saved.cluster.apply(saved.manifests)
    saved.cluster.settle()
    view = saved.view
    assert view.life_of(QUERY) == view.number_of(view.queries[QUERY])


def test_streams_that_are_read_once_leave_nothing_to_go_on_with(tmp_path: Path) -> None:
    made = SavedCluster(tmp_path / "state")
    made.save()
    delete(made, QUERIES.key(QUERY))
    made.cluster.settle()
    told = refused(made)
    assert told.startswith("has no state that query proximity could go on with: ")
    assert "proximity.north_tracks: stream north is read once" in told
    assert "proximity.alerts: north_tracks, which it reads, begins anew" in told


def departed(saved: SavedCluster, savepoint: str = "before") -> dict[str, str]:
    return saved.view.savepoints[savepoint].record.departed


def with_statements(saved: SavedCluster, before: str, after: str) -> ApplyRequest:
    manifests = saved.manifests
    (query,) = manifests.queries
    assert before in query.record.statements
    statements = query.record.statements.replace(before, after)
    changed = structs.replace(query, record=structs.replace(query.record, statements=statements))
    return ApplyRequest(streams=manifests.streams, queries=(changed,))


def test_a_savepoint_tells_that_its_query_was_changed_in_place_since(tmp_path: Path) -> None:
    """Sinks have results of the changed statements under the numbers that follow it."""
    saved = SavedCluster(tmp_path / "state", source=READ_AGAIN)
    saved.save()
    (query,) = saved.manifests.queries
    slower = structs.replace(query, record=structs.replace(query.record, deadline_ms=400.0))
    for wish in (
        structs.replace(with_statements(saved, "x", "x"), queries=(slower,)),
        with_statements(saved, "WHERE x > 0", "WHERE x > 1"),
    ):
        assert not departed(saved)
        assert saved.cluster.ask(wish).refusal is None
        saved.cluster.consent()
        saved.cluster.settle()
    assert departed(saved) == {QUERY: "query proximity was changed in place"}
    saved.save("after")
    assert not departed(saved, "after")


def test_every_savepoint_tells_that_the_query_began_from_one_with_other_statements(
    tmp_path: Path,
) -> None:
    saved = SavedCluster(tmp_path / "state", source=READ_AGAIN)
    saved.save()
    saved.save("again")
    delete(saved, QUERIES.key(QUERY))
    saved.cluster.settle()
    wish = with_statements(saved, "WHERE x > 0", "WHERE x > 1")
    assert saved.cluster.ask(structs.replace(wish, savepoint="before")).refusal is None
    saved.cluster.consent()
    saved.cluster.settle()
    assert all(each.restored for each in fragments(saved).values())
    how = "query proximity began from savepoint before with other statements"
    assert departed(saved) == departed(saved, "again") == {QUERY: how}


def test_a_savepoint_tells_that_a_state_that_lasts_for_ever_was_lost_since(tmp_path: Path) -> None:
    saved = SavedCluster(tmp_path / "state", source=READ_AGAIN)
    saved.save()
    saved.save("again")
    lost = saved.view.fragments["proximity.alerts"].record
    delete(saved, CHECKPOINTS.key(lost.key))
    for replica in lost.replicas:
        saved.cluster.restart(replica.node)
    saved.cluster.settle()
    assert fragments(saved)[lost.key].generation > lost.generation
    assert departed(saved) == departed(saved, "again")
    assert departed(saved) == {QUERY: "proximity.alerts began from nothing"}
