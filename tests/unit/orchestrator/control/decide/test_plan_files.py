"""Plans of moves as documents: applied exactly or refused with what differs, and taken back."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orchestrator.control.decide import plan_files
from orchestrator.control.decide.basis import digest
from orchestrator.control.decide.moving import KEPT_US
from orchestrator.control.decide.net_gains import net_gains
from orchestrator.errors import EXIT_DRIFTED, Drifted, VivaceError
from orchestrator.manifest import load
from orchestrator.records import (
    ApplyPlanRequest,
    CordonRecord,
    DeleteRequest,
    DrainRequest,
    FragmentRecord,
    MovePlan,
    MoveRequest,
    MoveStep,
    PlanFile,
    RebalanceLimits,
    RebalanceRequest,
    SwitchRequest,
    UndoRequest,
    Wish,
)
from orchestrator.store.protocol import CORDONS, MOVES, PROPOSALS, REQUESTS
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft, short_reigns

ALERTS, NORTH, SOUTH = (f"proximity.{each}" for each in ("alerts", "north_tracks", "south_tracks"))


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.apply(aircraft())
    made.settle()
    return made


HIGH = """\
kind: Query
name: high
statements: |
  REGISTER QUERY high RSTREAM(SELECT id, x FROM north [NOW] WHERE x > 1);
outputs: {high: control-centre}
deadline: 300 ms
recovery: 300 ms
"""


def test_a_plan_that_would_be_too_large_tells_of_the_queries_that_move(
    cluster: ObedientCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "high.yaml").write_text(HIGH)
    cluster.apply(load([tmp_path]))
    cluster.settle()
    node = record(cluster, "high.high").primary.node
    limits = RebalanceLimits(query="high")
    wish = RebalanceRequest(goals=(f"evacuate:{node}",), limits=limits)
    whole = ask(cluster, wish).rebalancing
    assert whole is not None
    assert whole.is_whole
    assert {each.fragment for each in whole.after} == {ALERTS, NORTH, SOUTH, "high.high"}
    monkeypatch.setattr(plan_files, "LARGE_BYTES", 0)
    file = ask(cluster, wish)
    small = file.rebalancing
    assert small is not None
    assert small.moves == whole.moves
    assert {each.fragment for each in small.after} == {"high.high"}
    assert {each.stream for each in small.rates} == {"high", "north"}
    assert not small.is_whole
    # It is applied like any other.
    carried_out(cluster, ApplyPlanRequest(plan=file))
    assert node not in nodes(cluster)["high.high"]


def record(cluster: ObedientCluster, key: str) -> FragmentRecord:
    return cluster.view().fragments[key].record


def nodes(cluster: ObedientCluster) -> dict[str, tuple[str, ...]]:
    found = cluster.view().fragments
    return {key: tuple(r.node for r in each.record.replicas) for key, each in found.items()}


def free(cluster: ObedientCluster, key: str) -> str:
    taken = {replica.node for replica in record(cluster, key).replicas}
    return next(name for name in EXECUTORS if name in cluster.hosts and name not in taken)


def ask(cluster: ObedientCluster, wish: Wish, *, settles: bool = True) -> PlanFile:
    """Ask for a plan, and no longer."""
    proposal = cluster.ask(wish, "plan")
    cluster.store.delete(REQUESTS.key("plan"), 0)
    if settles:
        cluster.settle()
    if proposal.refusal is not None:
        raise proposal.refusal.error
    assert proposal.file is not None
    return proposal.file


def carried_out(cluster: ObedientCluster, wish: Wish) -> MovePlan:
    """Ask for moves, consent, and see them through; the plan as it ended."""
    proposal = cluster.ask(wish)
    if proposal.refusal is not None:
        cluster.store.delete(REQUESTS.key("asked"), 0)
        raise proposal.refusal.error
    assert proposal.moves is not None
    cluster.consent()
    cluster.settle()
    return cluster.view().moves[proposal.moves.name].record


def under_short_reigns(cluster: ObedientCluster) -> None:
    """Let leaders and hosts do all they have to do, while each leader dies after one write."""
    for _ in range(200):
        made_writes = [*short_reigns(cluster)]
        for host in cluster.hosts.values():
            host.obey()
        if not made_writes and not [*short_reigns(cluster)]:
            break


def agree(cluster: ObedientCluster, name: str) -> None:
    """Consent to what was proposed, before the leader looks again."""
    found = cluster.view().proposals[name]
    consented = msgspec.structs.replace(found.record, consented=True)
    cluster.store.update(PROPOSALS.key(name), consented, found.version)


def reviewed(cluster: ObedientCluster) -> PlanFile:
    """A plan that brings a primary to a node without replicas, where it has been before."""
    used = {node for replicas in nodes(cluster).values() for node in replicas}
    target = next(name for name in EXECUTORS if name not in used)
    moved = carried_out(cluster, MoveRequest(fragment=ALERTS, role="primary", node=target))
    back = carried_out(cluster, ApplyPlanRequest(plan=ask(cluster, UndoRequest(plan=moved))))
    return ask(cluster, UndoRequest(plan=back))


def test_undo_restores_the_places(cluster: ObedientCluster) -> None:
    before = nodes(cluster)
    moved = carried_out(
        cluster, MoveRequest(fragment=ALERTS, role="primary", node=free(cluster, ALERTS))
    )
    assert nodes(cluster) != before
    plan = ask(cluster, UndoRequest(plan=moved))
    assert (plan.undo_of, plan.immovable, len(plan.moves)) == (moved.name, (), 1)
    back = carried_out(cluster, ApplyPlanRequest(plan=plan, throttle_bytes_s=2e6))
    assert nodes(cluster) == before
    assert (back.undo_of, back.digest, back.throttle_bytes_s) == (moved.name, plan.digest, 2e6)


def test_a_plan_of_several_fragments_and_roles_is_taken_back_wherever_leaders_die(
    cluster: ObedientCluster,
) -> None:
    before = nodes(cluster)
    steps = [
        {"fragment": ALERTS, "role": "primary", "node": before[ALERTS][1]},
        {"fragment": NORTH, "role": "secondary", "node": free(cluster, NORTH)},
        {"fragment": ALERTS, "role": "secondary", "node": free(cluster, ALERTS)},
        {"fragment": SOUTH, "role": "primary", "node": free(cluster, SOUTH)},
        {"fragment": SOUTH, "role": "secondary", "node": before[SOUTH][0]},
    ]
    made = {"name": "there", "steps": steps, "submitted_us": cluster.now_us, "at_a_time": 2}
    cluster.store.create(MOVES.key("there"), msgspec.convert(made, MovePlan))
    cluster.settle()
    ended = cluster.view().moves["there"].record
    assert all(step.done for step in ended.steps), ended.outcome
    plan = ask(cluster, UndoRequest(plan=ended))
    assert not plan.immovable
    cluster.ask(ApplyPlanRequest(plan=plan, at_a_time=2, throttle_bytes_s=1e6))
    cluster.consent()
    under_short_reigns(cluster)
    assert nodes(cluster) == before


def test_what_cannot_go_back_is_named_and_the_rest_goes(cluster: ObedientCluster) -> None:
    before = nodes(cluster)
    steps = [
        {"fragment": key, "role": "secondary", "node": free(cluster, key)}
        for key in (ALERTS, NORTH)
    ]
    made = {"name": "there", "steps": steps, "submitted_us": cluster.now_us}
    cluster.store.create(MOVES.key("there"), msgspec.convert(made, MovePlan))
    cluster.settle()
    ended = cluster.view().moves["there"].record
    closed = before[ALERTS][1]
    assert closed != before[NORTH][1] or pytest.skip("both come from one node")
    cluster.store.create(CORDONS.key(closed), CordonRecord(node=closed, since_us=cluster.now_us))
    plan = ask(cluster, UndoRequest(plan=ended))
    (stays,) = plan.immovable
    assert stays.fragment == ALERTS
    assert f"{closed} is cordoned" in stays.problem
    assert [each.fragment for each in plan.moves] == [NORTH]


def test_what_has_moved_since_stays(cluster: ObedientCluster) -> None:
    moved = carried_out(
        cluster, MoveRequest(fragment=ALERTS, role="primary", node=free(cluster, ALERTS))
    )
    carried_out(cluster, MoveRequest(fragment=ALERTS, role="secondary", node=free(cluster, ALERTS)))
    plan = ask(cluster, UndoRequest(plan=moved))
    assert not plan.moves
    assert "by now, where the plan has not left it" in plan.immovable[0].problem


def test_a_plan_under_way_is_not_taken_back(cluster: ObedientCluster) -> None:
    moved = carried_out(
        cluster, MoveRequest(fragment=ALERTS, role="primary", node=free(cluster, ALERTS))
    )
    with pytest.raises(VivaceError, match="it is under way"):
        ask(cluster, UndoRequest(plan=msgspec.structs.replace(moved, ended_us=None)))


@pytest.mark.parametrize("change", ["primary", "query", "node", "cordon", "latency"])
def test_a_plan_that_no_longer_holds_is_refused_with_what_differs_and_nothing_is_written(
    cluster: ObedientCluster, change: str
) -> None:
    plan = reviewed(cluster)
    (move,) = plan.moves
    target = move.node
    was, expected = record(cluster, ALERTS), list[tuple[str, str, str]]()
    at = f"{was.primary.node}, {was.secondary.node if was.secondary else ''}"
    match change:
        case "primary":
            cluster.take_over(was, cluster.view().fragments[ALERTS].version)
            now = record(cluster, ALERTS)
            told = ", ".join(each.node for each in (now.primary, now.secondary) if each)
            silent = was.primary
            expected = [
                (f"fragments/{ALERTS}", at, told),
                (f"nodes/{silent.node}", silent.incarnation, "silent"),
            ]
        case "query":
            cluster.ask(DeleteRequest(names=("proximity",)), "delete")
            cluster.consent("delete")
            cluster.settle()
            expected = [
                (f"fragments/{ALERTS}", at, "not there"),
                ("queries/proximity", "as planned", "not there"),
            ]
        case "node":
            before = cluster.hosts[target].record.incarnation
            cluster.restart(target)
            expected = [(f"nodes/{target}", before, cluster.hosts[target].record.incarnation)]
        case "cordon":
            before = cluster.hosts[target].record.incarnation
            cordon = CordonRecord(node=target, since_us=cluster.now_us)
            cluster.store.create(CORDONS.key(target), cordon)
            expected = [(f"nodes/{target}", before, "cordoned")]
        case _:
            for name, host in cluster.hosts.items():
                slow = host.record.latencies_ms.keys() if name == target else {target}
                host.tell(latencies_ms=host.record.latencies_ms | dict.fromkeys(slow, 900.0))
    before_asked = dict(cluster.server.entries)
    with pytest.raises(Drifted) as refused:
        carried_out(cluster, ApplyPlanRequest(plan=plan))
    assert refused.value.exit_status == EXIT_DRIFTED
    if change == "latency":
        ((subject, then, now),) = refused.value.differences
        assert (subject, then) == (f"{ALERTS} primary → {target}", "possible")
        assert "of its deadline, 300 ms" in now
    else:
        assert [*refused.value.differences] == expected
    for line in refused.value.differences:
        assert all(part in str(refused.value) for part in line)
    written = {
        path
        for path in before_asked.keys() | cluster.server.entries.keys()
        if before_asked.get(path) != cluster.server.entries.get(path)
    }
    # What the leader writes of what it was asked, and of what has changed before that.
    assert not [path for path in written if path.split("/")[0] in ("moves", "fragments", "cordons")]
    assert cluster.proposal().moves is None


def test_other_changes_do_not_matter(cluster: ObedientCluster) -> None:
    plan = reviewed(cluster)
    carried_out(cluster, MoveRequest(fragment=SOUTH, role="secondary", node=free(cluster, SOUTH)))
    for host in cluster.hosts.values():
        host.tell(latencies_ms={n: ms * 1.02 for n, ms in host.record.latencies_ms.items()})
    assert carried_out(cluster, ApplyPlanRequest(plan=plan)).outcome == "1 of 1 done"


def test_only_an_unchanged_plan_of_this_cluster_and_version_is_taken(
    cluster: ObedientCluster,
) -> None:
    plan = reviewed(cluster)
    for changes, told in (
        ({"format": 99}, "is not the format of this version"),
        ({"cluster_id": "other"}, "was another cluster of that name"),
        ({"cluster": "other", "cluster_id": "other"}, "is not this cluster, aircraft"),
        ({"moves": ()}, "it was changed"),
    ):
        with pytest.raises(VivaceError, match=told):
            carried_out(cluster, ApplyPlanRequest(plan=msgspec.structs.replace(plan, **changes)))
    assert len(cluster.view().moves) == 2


def test_a_plan_of_what_is_not_there_or_with_figures_of_others_is_refused_whatever_its_digest(
    cluster: ObedientCluster,
) -> None:
    plan = worth_it(cluster)
    assert plan.rebalancing is not None
    gone = tuple(msgspec.structs.replace(e, fragment="proximity.gone") for e in plan.moves)
    far = tuple(msgspec.structs.replace(e, node="rome") for e in plan.moves)
    told = msgspec.structs.replace(plan.rebalancing, changes=())
    for changes, said in (
        ({"moves": gone, "rebalancing": None}, "it is not there"),
        ({"moves": far, "rebalancing": None}, "rome"),
        ({"moves": gone}, "tells of other moves"),
        ({"rebalancing": told}, "tells of other moves"),
    ):
        forged = msgspec.structs.replace(plan, **changes, digest="")
        forged = msgspec.structs.replace(forged, digest=digest(forged))
        with pytest.raises(VivaceError) as caught:
            carried_out(cluster, ApplyPlanRequest(plan=forged))
        assert said in f"{caught.value} {getattr(caught.value, 'differences', '')}"
    assert len(cluster.view().moves) == 1


def test_something_that_changes_between_proposal_and_consent_is_refused(
    cluster: ObedientCluster,
) -> None:
    plan = reviewed(cluster)
    assert cluster.ask(ApplyPlanRequest(plan=plan)).moves is not None
    cluster.restart(plan.moves[0].node)
    found = cluster.view().proposals["asked"]
    consented = msgspec.structs.replace(found.record, consented=True)
    cluster.store.update(PROPOSALS.key("asked"), consented, found.version)
    cluster.settle()
    assert cluster.proposal().changed == (f"nodes/{plan.moves[0].node}",)
    assert len(cluster.view().moves) == 2


def test_a_plan_is_known_while_its_record_is_gone(cluster: ObedientCluster) -> None:
    moved = carried_out(
        cluster, MoveRequest(fragment=ALERTS, role="primary", node=free(cluster, ALERTS))
    )
    cluster.now_us += KEPT_US
    cluster.settle()
    (kept,) = [each.event.moves for each in cluster.store.history() if each.event.moves]
    assert kept == moved


def test_a_plan_that_leaders_die_over_at_every_write_is_taken_back(
    cluster: ObedientCluster,
) -> None:
    before = nodes(cluster)
    wishes: tuple[Wish, ...] = (
        SwitchRequest(fragment=ALERTS),
        MoveRequest(fragment=NORTH, role="secondary", node=free(cluster, NORTH)),
        MoveRequest(fragment=SOUTH, role="primary", node=free(cluster, SOUTH)),
    )
    for wish in wishes:
        planned = cluster.ask(wish).moves
        assert planned is not None
        cluster.consent()
        under_short_reigns(cluster)
        plan = ask(cluster, UndoRequest(plan=cluster.view().moves[planned.name].record))
        assert len(plan.moves) == 1
        carried_out(cluster, ApplyPlanRequest(plan=plan))
        assert nodes(cluster) == before


@pytest.mark.parametrize("other", ["itself", "a move", "a drain"])
def test_a_plan_is_refused_while_another_one_moves_its_fragment(
    cluster: ObedientCluster, other: str
) -> None:
    plan = reviewed(cluster)
    (move,) = plan.moves
    wish = {
        "itself": ApplyPlanRequest(plan=plan),
        "a move": MoveRequest(fragment=ALERTS, role="secondary", node=free(cluster, ALERTS)),
        "a drain": DrainRequest(node=move.primary[0]),
    }[other]
    under_way = cluster.ask(wish, "first").moves
    assert under_way is not None
    assert cluster.ask(ApplyPlanRequest(plan=plan), "second").moves is not None
    # Both have consented before the leader looks: the first one is taken.
    agree(cluster, "first")
    agree(cluster, "second")
    cluster.settle_coordinator()
    assert f"fragments/{ALERTS}" in cluster.proposal("second").changed
    with pytest.raises(Drifted) as refused:
        carried_out(cluster, ApplyPlanRequest(plan=plan))
    told = {subject: now for subject, _, now in refused.value.differences}
    assert told[f"fragments/{ALERTS}"] == f"being moved by {under_way.name}"
    assert len([each for each in cluster.view().moves.values() if not each.record.ended_us]) == 1


def test_what_is_being_moved_does_not_go_back(cluster: ObedientCluster) -> None:
    moved = carried_out(cluster, MoveRequest(fragment=ALERTS, role="primary", node="zurich"))
    step = MoveStep(fragment=ALERTS, role="secondary", node="frankfurt")
    away = MovePlan(name="away", steps=(step,), submitted_us=cluster.now_us)
    cluster.store.create(MOVES.key("away"), away)
    (stays,) = ask(cluster, UndoRequest(plan=moved), settles=False).immovable
    assert stays.problem == "it is being moved by away"


def sized(cluster: ObedientCluster, state_bytes: int) -> None:
    """Have hosts report the sizes of the states that they hold."""
    for host in cluster.hosts.values():
        replicas = {
            name: msgspec.structs.replace(each, state_bytes=state_bytes)
            for name, each in host.record.replicas.items()
        }
        host.tell(replicas=replicas)


def worth_it(cluster: ObedientCluster) -> PlanFile:
    """A plan that brings a primary back that was moved far away."""
    carried_out(cluster, MoveRequest(fragment=ALERTS, role="primary", node="zurich"))
    sized(cluster, 1000)
    plan = cluster.ask(RebalanceRequest(), "plan").file
    cluster.store.delete(REQUESTS.key("plan"), 0)
    assert plan is not None
    assert plan.moves
    return plan


def test_a_plan_that_is_worth_it_is_applied_and_leaves_nothing_to_move(
    cluster: ObedientCluster,
) -> None:
    plan = worth_it(cluster)
    assert plan.moves[0].state_bytes == 1000
    written = msgspec.json.decode(msgspec.json.encode(plan), type=PlanFile)
    done = carried_out(cluster, ApplyPlanRequest(plan=written))
    assert done.digest == plan.digest
    assert all(step.done for step in done.steps), done.outcome
    sized(cluster, 1000)
    proposal = cluster.ask(RebalanceRequest(), "again").file
    assert proposal is not None
    assert not proposal.moves


def test_the_gain_of_now_is_that_of_the_plan_while_nothing_changes(
    cluster: ObedientCluster,
) -> None:
    plan = worth_it(cluster).rebalancing
    assert plan is not None
    for was, now in zip(plan.changes, net_gains(cluster.view(), plan), strict=True):
        assert now.gain_bytes == pytest.approx(was.gain_bytes)
        assert now.price_bytes == pytest.approx(was.price_bytes)
        assert now.uncertainty_bytes == pytest.approx(was.uncertainty_bytes)


def test_a_plan_that_gains_nothing_by_the_figures_of_now_is_refused(
    cluster: ObedientCluster,
) -> None:
    plan = worth_it(cluster)
    sized(cluster, 500_000_000_000)
    with pytest.raises(Drifted) as refused:
        carried_out(cluster, ApplyPlanRequest(plan=plan))
    ((subject, was, now),) = refused.value.differences
    assert subject.startswith(f"gain of change 1 ({ALERTS} ")
    assert was.endswith("bytes of price and uncertainty")
    assert was != now
