"""Moves, drains and deletions that clients ask for: done once or refused, never half."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.control.decide.proposing import refused_by_a_bug
from orchestrator.records import (
    ApplyRequest,
    DeleteRequest,
    Deletion,
    DrainRequest,
    FragmentRecord,
    MovePlan,
    MoveRequest,
    PlannedMoves,
    RequestRecord,
    SwitchRequest,
    Wish,
)
from orchestrator.store.protocol import MOST_BYTES, PROPOSALS, REQUESTS, encode
from tests.obedient_cluster import (
    EXECUTORS,
    ObedientCluster,
    aircraft,
    query_manifest,
    short_reigns,
)

COUNTING = query_manifest(
    "counting",
    "REGISTER QUERY counts ISTREAM(SELECT count(*) AS n FROM alerts [RANGE 1 MINUTE]);",
    outputs={"counts": "control-centre"},
)


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.apply(aircraft())
    made.settle()
    return made


def alerts(cluster: ObedientCluster) -> FragmentRecord:
    return cluster.view().fragments["proximity.alerts"].record


def elsewhere(cluster: ObedientCluster) -> str:
    taken = {replica.node for replica in alerts(cluster).replicas}
    return next(name for name in EXECUTORS if name not in taken)


def moves_of(cluster: ObedientCluster, wish: Wish, name: str = "asked") -> PlannedMoves:
    moves = cluster.ask(wish, name).moves
    assert moves is not None
    return moves


def only_plan(cluster: ObedientCluster) -> MovePlan:
    (found,) = cluster.view().moves.values()
    return found.record


def agree(cluster: ObedientCluster, name: str) -> None:
    """Consent, and go on asking: the answer stays."""
    found = cluster.view().proposals[name]
    consented = msgspec.structs.replace(found.record, consented=True)
    cluster.store.update(PROPOSALS.key(name), consented, found.version)


def test_a_move_is_taken_whole_or_not_at_all_wherever_a_leader_dies(
    cluster: ObedientCluster,
) -> None:
    target = elsewhere(cluster)
    wanted = moves_of(cluster, MoveRequest(fragment="alerts", role="primary", node=target))
    assert not cluster.view().moves
    cluster.consent()
    accepted = False
    for write in short_reigns(cluster):
        assert accepted or not cluster.view().moves
        accepted |= write.key.path == "proposals/asked"
    assert not cluster.view().proposals
    assert only_plan(cluster).name == wanted.name
    cluster.settle()
    (step,) = only_plan(cluster).steps
    assert step.done
    assert alerts(cluster).primary.node == target


def test_a_drain_is_taken_whole_or_not_at_all_wherever_a_leader_dies(
    cluster: ObedientCluster,
) -> None:
    node = alerts(cluster).primary.node
    wanted = moves_of(cluster, DrainRequest(node=node, at_a_time=2, cordon_s=60.0))
    cluster.consent()
    accepted = False
    for write in short_reigns(cluster):
        view = cluster.view()
        assert accepted or not (view.moves or view.cordons)
        assert view.cordons or not view.moves
        accepted |= write.key.path == "proposals/asked"
    assert not cluster.view().proposals
    plan, cordon = only_plan(cluster), cluster.view().cordons[node].record
    assert (plan.name, plan.drains, plan.at_a_time) == (wanted.name, node, 2)
    assert cordon.until_us == cordon.since_us + 60_000_000
    cluster.settle()
    assert all(step.done for step in only_plan(cluster).steps)
    assert not any(f.record.runs_on(node) for f in cluster.view().fragments.values())
    assert cluster.history().count(f"cordoned: {node}") <= 1


def test_moves_rest_on_their_fragments_and_targets_only(cluster: ObedientCluster) -> None:
    target = elsewhere(cluster)
    cluster.ask(MoveRequest(fragment="alerts", role="secondary", node=target))
    assert cluster.proposal().basis.keys() == {
        "cluster",
        "fragments/proximity.alerts",
        f"nodes/{target}",
    }
    # Another fragment changes meanwhile.
    moves_of(cluster, SwitchRequest(fragment="north_tracks"), "other")
    cluster.consent("other")
    cluster.settle()
    agree(cluster, "asked")
    cluster.settle()
    assert cluster.proposal().created
    secondary = alerts(cluster).secondary
    assert secondary is not None
    assert secondary.node == target


@pytest.mark.parametrize("place", ["target", "fragment"])
def test_a_move_that_no_longer_holds_is_refused_with_what_has_changed(
    cluster: ObedientCluster, place: str
) -> None:
    target = elsewhere(cluster)
    moves_of(cluster, MoveRequest(fragment="alerts", role="secondary", node=target))
    if place == "target":
        cluster.restart(target)
    else:
        found = cluster.view().fragments["proximity.alerts"]
        cluster.take_over(found.record, found.version)
    agree(cluster, "asked")
    cluster.settle()
    changed = f"nodes/{target}" if place == "target" else "fragments/proximity.alerts"
    assert changed in cluster.proposal().changed
    assert not cluster.proposal().accepted
    assert not cluster.view().moves


def test_a_refused_drain_leaves_nothing_and_says_why(cluster: ObedientCluster) -> None:
    for name in [n for n in EXECUTORS if not alerts(cluster).runs_on(n)]:
        cluster.kill(name)
    cluster.settle()
    refusal = cluster.ask(DrainRequest(node=alerts(cluster).primary.node)).refusal
    assert refusal is not None
    assert "cannot leave" in str(refusal.error)
    assert not cluster.view().cordons


def test_a_deletion_is_taken_whole_or_not_at_all_wherever_a_leader_dies(
    cluster: ObedientCluster,
) -> None:
    both = msgspec.structs.replace(aircraft(), streams=(), queries=(COUNTING,))
    cluster.apply(both)
    cluster.settle()
    deletion = cluster.ask(DeleteRequest(names=("proximity", "counting"))).deletion
    assert deletion is not None
    assert (deletion.queries, deletion.streams) == (("counting", "proximity"), ("north", "south"))
    cluster.consent()
    accepted = False
    for write in short_reigns(cluster):
        view = cluster.view()
        whole = set(view.queries) == {"counting", "proximity"} and len(view.streams) == 2
        assert accepted or whole
        assert set(view.queries) != {"counting"}, "what it reads is gone"
        accepted |= write.key.path == "proposals/asked"
    view = cluster.view()
    assert not [*view.queries, *view.streams, *view.fragments, *view.proposals]
    assert not view.running_streams


def test_streams_stay_that_nothing_reads_if_they_are_to_be_kept(
    cluster: ObedientCluster,
) -> None:
    named = ("proximity", "north")
    kept = DeleteRequest(names=("proximity",), if_there=named, keep_streams=True)
    assert cluster.ask(kept).deletion == Deletion(queries=("proximity",), streams=())
    named_itself = DeleteRequest(names=named, keep_streams=True)
    deletion = cluster.ask(named_itself, "again").deletion
    assert deletion == Deletion(queries=("proximity",), streams=("north",))


def test_a_deletion_is_refused_if_a_reader_has_come_meanwhile(cluster: ObedientCluster) -> None:
    cluster.ask(DeleteRequest(names=("proximity",)))
    cluster.apply(msgspec.structs.replace(aircraft(), streams=(), queries=(COUNTING,)))
    agree(cluster, "asked")
    cluster.settle()
    assert cluster.proposal().changed == ("queries/counting",)
    assert {"proximity", "counting"} == cluster.view().queries.keys()


@pytest.mark.parametrize("names", [("apply", "delete"), ("b-apply", "a-delete")])
def test_of_a_deletion_and_a_reader_that_are_wanted_at_once_one_is_taken(
    cluster: ObedientCluster, names: tuple[str, str]
) -> None:
    apply, delete = names
    cluster.ask(ApplyRequest(queries=(COUNTING,)), apply)
    cluster.ask(DeleteRequest(names=("proximity",)), delete)
    agree(cluster, apply)
    agree(cluster, delete)
    cluster.settle()
    assert cluster.proposal(apply).created
    assert not cluster.proposal(delete).accepted
    assert {"proximity", "counting"} == cluster.view().queries.keys()
    assert not cluster.view().problems


def test_of_two_deletions_that_leave_a_stream_unread_the_second_is_asked_for_again(
    cluster: ObedientCluster,
) -> None:
    other = query_manifest(
        "other",
        "REGISTER QUERY seen RSTREAM(SELECT id FROM north [NOW]);",
        outputs={"seen": "control-centre"},
    )
    cluster.apply(msgspec.structs.replace(aircraft(), streams=(), queries=(other,)))
    cluster.settle()
    for name in ("other", "proximity"):
        cluster.ask(DeleteRequest(names=(name,)), name)
    for name in ("other", "proximity"):
        agree(cluster, name)
    cluster.settle()
    assert cluster.proposal("other").created
    assert "queries/other" in cluster.proposal("proximity").changed
    cluster.store.delete(REQUESTS.key("proximity"), 0)
    cluster.settle()
    cluster.ask(DeleteRequest(names=("proximity",)), "again")
    cluster.consent("again")
    cluster.settle()
    assert not cluster.view().streams


def test_what_is_wanted_beside_an_accepted_deletion_is_compared_with_what_it_leaves(
    cluster: ObedientCluster,
) -> None:
    cluster.ask(ApplyRequest(queries=(COUNTING,)), "apply")
    cluster.ask(DeleteRequest(names=("proximity",)), "delete")
    agree(cluster, "delete")
    accepts = next(short_reigns(cluster))
    assert accepts.key.path == "proposals/delete"
    cluster.write(accepts)
    agree(cluster, "apply")
    cluster.settle()
    assert cluster.proposal("delete").created
    assert "queries/proximity" in cluster.proposal("apply").changed
    assert not cluster.view().queries


def test_a_refusal_that_the_store_would_not_take_is_told_in_short(
    cluster: ObedientCluster,
) -> None:
    # The request fits, and the refusal names it with a remedy.
    wish = DeleteRequest(names=("x" * (MOST_BYTES - 100),))
    assert len(encode(RequestRecord(wish=wish))) <= MOST_BYTES
    proposal = cluster.ask(wish)
    assert len(encode(proposal)) <= MOST_BYTES
    assert proposal.refusal is not None
    assert "of which the store takes" in proposal.refusal.problem


def test_a_bug_of_many_words_is_told_in_short(cluster: ObedientCluster) -> None:
    cluster.ask(DeleteRequest(names=("proximity",)))
    asked = cluster.view().requests["asked"]
    proposal = refused_by_a_bug(asked, ValueError("x" * MOST_BYTES))
    assert len(encode(proposal)) <= MOST_BYTES
