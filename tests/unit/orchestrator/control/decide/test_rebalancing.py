"""Rebalancing plans of the leader: worth it by the planner's cost, legal by the rules of moves."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from orchestrator.control.decide import rebalancing as subject
from orchestrator.control.decide.rebalancing import rebalance
from orchestrator.control.planning.measured_rates import measured_rates
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.relocation import relocate
from orchestrator.errors import InvalidInput
from orchestrator.records import (
    CordonRecord,
    MovePlan,
    MoveStep,
    RebalanceLimits,
    RebalancePlan,
    ReplicaLoad,
    SourceStatus,
)
from orchestrator.store.protocol import CORDONS, FRAGMENTS, MOVES, encode
from placement.rebalancing.moves import RebalanceSettings
from tests.obedient_cluster import ObedientCluster, aircraft, query_manifest

ALERTS = "proximity.alerts"

EAGER = RebalanceSettings(hysteresis_share=0, horizon_s=1e12)
"""Whatever lowers the cost is worth it."""


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.apply(aircraft())
    made.settle()
    return made


def carried_out(cluster: ObedientCluster, *steps: MoveStep) -> None:
    name = f"test-{len(cluster.view().moves)}"
    plan = MovePlan(name=name, steps=steps, submitted_us=cluster.now_us)
    cluster.store.create(MOVES.key(name), plan)
    cluster.settle()
    assert all(step.done for step in cluster.view().moves[name].record.steps)


def displaced(cluster: ObedientCluster) -> RebalancePlan:
    """The plan after the primary of the alerts was moved far away."""
    carried_out(cluster, MoveStep(fragment=ALERTS, role="primary", node="zurich"))
    return rebalance(cluster.view(), ["network"], margins=EAGER)


def test_what_the_planner_has_placed_stays_even_without_hysteresis(
    cluster: ObedientCluster,
) -> None:
    plan = rebalance(cluster.view(), [], margins=EAGER)
    assert (plan.goals, plan.moves, plan.undo) == (("network",), (), ())
    assert plan.cost_bytes[0] == plan.cost_bytes[1] > 0
    assert {each.fragment for each in plan.after} == cluster.view().fragments.keys()
    # All hosts of the test call themselves one machine.
    assert [(loss.kind, loss.name) for loss in plan.unsurvived] == [("machine", "here")]
    assert plan.assumed_states == tuple(sorted(cluster.view().fragments))
    assert plan.round_trips == ()
    assert msgspec.json.decode(encode(plan), type=RebalancePlan) == plan


def with_selectivity(selectivity: float) -> ObedientCluster:
    """The example's query, every fragment with that selectivity."""
    given = aircraft()
    (query,) = given.queries
    estimates = {
        name: msgspec.structs.replace(each, selectivity=selectivity)
        for name, each in query.record.estimates.items()
    }
    record = msgspec.structs.replace(query.record, estimates=estimates)
    made = ObedientCluster()
    made.apply(
        msgspec.structs.replace(given, queries=(msgspec.structs.replace(query, record=record),))
    )
    made.settle()
    return made


@pytest.mark.parametrize("selectivity", [0.1, 0.5, 0.75])
def test_where_the_load_of_a_query_itself_counts_it_stays_too(selectivity: float) -> None:
    assert rebalance(with_selectivity(selectivity).view(), [], margins=EAGER).moves == ()


@pytest.mark.parametrize("selectivity", [0.05, 0.3])
def test_what_the_choice_of_secondaries_leaves_to_gain_is_little(selectivity: float) -> None:
    """The leader chooses secondaries by their streams when planning has ended, so some may move."""
    plan = rebalance(with_selectivity(selectivity).view(), [], margins=EAGER)
    before, after = plan.cost_bytes
    assert 0.99 * before < after <= before


def test_what_was_displaced_goes_back_and_the_plan_tells_with_which_figures(
    cluster: ObedientCluster,
) -> None:
    before = {key: found.record for key, found in cluster.view().fragments.items()}
    plan = displaced(cluster)
    assert {move.fragment for move in plan.moves} == {ALERTS}
    assert sum(move.gain_bytes for move in plan.moves) == pytest.approx(
        plan.cost_bytes[0] - plan.cost_bytes[1]
    )
    first, last = plan.moves[0].queries[0], plan.moves[-1].queries[0]
    assert last.network_usage_bytes[1] < first.network_usage_bytes[0]
    assert last.slack_ms[1] > first.slack_ms[0]
    assert [(each.fragment, each.primary) for each in plan.undo] == [(ALERTS, "zurich")]
    # Of the nodes that have to do with it: those among all hosts would be too many for the store.
    used = {node for each in plan.after for node in (each.primary, each.secondary)}
    used |= {"zurich", "north-receiver", "south-receiver", "control-centre"}
    assert {each.source for each in plan.round_trips} == used < cluster.view().hosts.keys()
    carried_out(cluster, *(move.step for move in plan.moves))
    assert {each.fragment: each.primary for each in plan.after} == {
        key: found.record.primary.node for key, found in cluster.view().fragments.items()
    }
    assert cluster.view().fragments[ALERTS].record.primary.node == before[ALERTS].primary.node
    assert rebalance(cluster.view(), [], margins=EAGER).moves == ()


def test_no_proposed_move_is_refused_when_it_is_made(cluster: ObedientCluster) -> None:
    for goals in (["network"], ["balance"], ["evacuate:london"], ["deadline-slack", "network"]):
        plan = rebalance(cluster.view(), goals, margins=EAGER)
        planning = Planning.of(cluster.view())
        for move in plan.moves:
            running = planning.running[move.fragment.rpartition(".")[2]]
            nodes = [running.primary, running.secondary]
            other = nodes[move.role == "primary"]
            nodes = [move.target, move.source if move.swaps else other]
            primary, secondary = nodes if move.role == "primary" else nodes[::-1]
            assert secondary is not None
            relocate(planning, move.fragment, str(primary), secondary)


def test_what_the_judge_refuses_is_a_finding_and_the_search_goes_on(
    cluster: ObedientCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quick test of the search does not know it, so the leader's rules alone can refuse it."""
    free = displaced(cluster)
    target = free.moves[-1].target
    real = subject.make

    def closed(planning: Planning, record: Any, step: MoveStep) -> Any:
        if step.node == target:
            problem = f"{target} is haunted: 3 ghosts, limit 2"
            raise subject.MoveRefused(step.fragment, problem, subject.Reason.SILENT)
        return real(planning, record, step)

    monkeypatch.setattr(subject, "make", closed)
    plan = rebalance(cluster.view(), ["network"], margins=EAGER)
    assert target not in {move.target for move in plan.moves}
    assert plan.rejected["silent"] > 0
    assert any("3 ghosts, limit 2" in each.problem for each in plan.refused)
    assert len(plan.refused) <= 10


def test_a_cordoned_node_takes_nothing_and_keeps_what_it_has(cluster: ObedientCluster) -> None:
    target = displaced(cluster).moves[-1].target
    record = CordonRecord(node=target, since_us=cluster.now_us)
    cluster.store.create(CORDONS.key(target), record)
    plan = rebalance(cluster.view(), ["network"], margins=EAGER)
    assert target not in {move.target for move in plan.moves}
    assert plan.cost_bytes[0] > 0


def test_a_node_is_evacuated(cluster: ObedientCluster) -> None:
    plan = rebalance(cluster.view(), ["evacuate:london"])
    assert all("london" not in (each.primary, each.secondary) for each in plan.after)
    assert {change.goal for change in plan.changes} == {"evacuate"}


def test_what_cannot_leave_a_node_for_want_of_another_one_is_named(
    cluster: ObedientCluster,
) -> None:
    record = cluster.view().fragments[ALERTS].record
    assert record.secondary is not None
    for node in cluster.view().executors.keys() - {record.primary.node, record.secondary.node}:
        cluster.store.create(CORDONS.key(node), CordonRecord(node=node, since_us=0))
    plan = rebalance(cluster.view(), [f"evacuate:{record.primary.node}"])
    assert any(record.primary.node in (each.primary, each.secondary) for each in plan.after)
    told = {each.problem.partition(":")[0]: each for each in plan.refused if not each.steps}
    assert told[ALERTS].reason == "not there"
    assert "every other live node is cordoned" in told[ALERTS].problem
    assert plan.rejected["not there"] >= len(told)


def test_an_earlier_goal_gets_hardly_worse(cluster: ObedientCluster) -> None:
    alone = rebalance(cluster.view(), ["balance"], margins=EAGER)
    assert alone.moves
    assert alone.cost_bytes[1] > 1.01 * alone.cost_bytes[0]
    second = rebalance(cluster.view(), ["network", "balance"], margins=EAGER)
    assert second.cost_bytes[1] <= 1.01 * second.cost_bytes[0]


def test_limits_are_kept(cluster: ObedientCluster) -> None:
    assert displaced(cluster).moves
    view = cluster.view()
    none = rebalance(view, [], RebalanceLimits(max_moves=0), EAGER)
    assert none.moves == ()
    assert none.rejected["budget"] > 0
    free = rebalance(view, [], RebalanceLimits(max_bytes=0), EAGER)
    assert all(move.swaps for move in free.moves)
    own = rebalance(view, [], RebalanceLimits(query="proximity"), EAGER)
    assert own.moves


@pytest.mark.parametrize(
    ("goals", "limits", "said"),
    [
        (["speed"], RebalanceLimits(), "is no goal.*network, balance, recovery, deadline-slack"),
        (["evacuate:rome"], RebalanceLimits(), "rome is no live node.*london"),
        ([], RebalanceLimits(query="distance"), "is not there.*proximity"),
    ],
)
def test_unknown_names_are_refused(
    cluster: ObedientCluster, goals: list[str], limits: RebalanceLimits, said: str
) -> None:
    with pytest.raises(InvalidInput, match=f"(?s){said}"):
        rebalance(cluster.view(), goals, limits)


def test_network_usage_of_queries_is_told_by_the_rates_that_the_plan_rests_on(
    cluster: ObedientCluster,
) -> None:
    stated = displaced(cluster)
    view = cluster.view()
    rates = Planning.of(view).work.rates
    for fragment in view.dataflow.fragments.values():
        for host in cluster.hosts.values():
            taken = sum(rates[each].tuples_s for each in fragment.inputs)
            host.loads[fragment.name] = ReplicaLoad(
                cores=0.0, evaluations_s=10, timestamps_s=10,
                tuples_s=taken / 2, emitted_s=rates[fragment.name].tuples_s / 2,
            )  # fmt: skip
            host.obey()
    plan = rebalance(cluster.view(), ["network"], margins=EAGER)
    assert all(each.measured for each in plan.rates)
    assert [each.step for each in plan.moves] == [each.step for each in stated.moves]
    for move, before in zip(plan.moves, stated.moves, strict=True):
        (now,), (then,) = move.queries, before.queries
        assert now.network_usage_bytes == pytest.approx(
            [usage / 2 for usage in then.network_usage_bytes], rel=1e-6
        )
        assert now.latency_ms == then.latency_ms


def test_a_fragment_that_has_run_for_half_a_minute_tells_the_rates(
    cluster: ObedientCluster,
) -> None:
    """Before that, and of streams that nobody measures, those of the manifest count."""
    planning = Planning.of(cluster.view())
    stated = planning.work.rates
    load = ReplicaLoad(cores=0.1, evaluations_s=10, timestamps_s=10, tuples_s=50, emitted_s=20)
    for share in (0.5, 0.96):
        for host in cluster.hosts.values():
            host.loads["north_tracks"] = msgspec.structs.replace(load, window_share=share)
            host.obey()
        found = measured_rates(cluster.view(), planning.work)
        (raw,) = planning.flow.fragments["north_tracks"].inputs
        if share < 0.9:
            assert found.rates == stated
            assert not found.measured
            continue
        assert found.measured == {"north_tracks", raw}
        assert (found.rates[raw].tuples_s, found.rates["north_tracks"].tuples_s) == (50, 20)
        width = stated["north_tracks"].bytes_s / stated["north_tracks"].tuples_s
        assert found.rates["north_tracks"].bytes_s == pytest.approx(20 * width)
        # What reads it brings as much less.
        before = stated["north_tracks"].bytes_s + stated["south_tracks"].bytes_s
        now = found.rates["north_tracks"].bytes_s + found.rates["south_tracks"].bytes_s
        share_of = found.rates["alerts"].bytes_s / stated["alerts"].bytes_s
        assert share_of == pytest.approx(now / before)
        told = {each.stream: each for each in rebalance(cluster.view(), []).rates}
        assert told["north_tracks"].measured
        assert not told["south_tracks"].measured


def test_tuples_are_as_large_as_hosts_have_seen_them(cluster: ObedientCluster) -> None:
    """Of texts, nobody knows beforehand how long they are."""
    work = Planning.of(cluster.view()).work
    (raw,) = cluster.view().dataflow.fragments["north_tracks"].inputs
    load = ReplicaLoad(
        cores=0.1, evaluations_s=10, timestamps_s=10, tuples_s=50, emitted_s=20,
        emitted_bytes_s=20 * 1000,
    )  # fmt: skip
    for host in cluster.hosts.values():
        host.loads["north_tracks"] = load
        host.obey()
    site = cluster.hosts[cluster.view().entering[raw].feeding_site]
    site.tell(sources={raw: SourceStatus(next_seq=0, tuple_bytes=400.0)})
    rates = measured_rates(cluster.view(), work).rates
    assert rates["north_tracks"].bytes_s == 20 * 1000
    assert rates[raw].bytes_s == 50 * 400


def test_what_may_not_move_stays_after_other_changes_too(cluster: ObedientCluster) -> None:
    statement = "REGISTER QUERY highest RSTREAM(SELECT id, x FROM north [NOW] WHERE x > 9);"
    outputs = {"highest": "control-centre"}
    other = query_manifest("peaks", statement, outputs=outputs)
    cluster.apply(msgspec.structs.replace(aircraft(), queries=(other,)))
    cluster.settle()
    away = [
        MoveStep(fragment=key, role="primary", node="zurich")
        for key in (ALERTS, "proximity.north_tracks", "peaks.highest")
    ]
    carried_out(cluster, *away)
    assert len({move.fragment for move in rebalance(cluster.view(), [], margins=EAGER).moves}) == 3
    plan = rebalance(cluster.view(), [], RebalanceLimits(query="proximity"), margins=EAGER)
    assert {m.fragment for m in plan.moves} == {ALERTS, "proximity.north_tracks"}
    step = MoveStep(fragment=ALERTS, role="secondary", node="frankfurt")
    moves = MovePlan(name="under-way", steps=(step,), submitted_us=cluster.now_us)
    cluster.store.create(MOVES.key("under-way"), moves)
    plan = rebalance(cluster.view(), [], margins=EAGER)
    assert ALERTS not in {m.fragment for m in plan.moves}


def test_a_query_without_a_secondary_that_shares_a_stream_keeps_no_other_from_moving(
    cluster: ObedientCluster,
) -> None:
    statement = "REGISTER QUERY highest RSTREAM(SELECT id, x FROM north [NOW] WHERE x > 9);"
    other = query_manifest("peaks", statement, outputs={"highest": "control-centre"})
    cluster.apply(msgspec.structs.replace(aircraft(), queries=(other,)))
    cluster.settle()
    carried_out(cluster, MoveStep(fragment=ALERTS, role="primary", node="zurich"))
    found = cluster.view().fragments["peaks.highest"]
    alone = msgspec.structs.replace(found.record, secondary=None)
    cluster.store.update(FRAGMENTS.key("peaks.highest"), alone, found.version)
    moved = {move.fragment for move in rebalance(cluster.view(), [], margins=EAGER).moves}
    assert ALERTS in moved
    assert "peaks.highest" not in moved
