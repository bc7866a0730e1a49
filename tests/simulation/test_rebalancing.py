"""Plans of moves while tuples flow: carried out and taken back, nothing is lost or repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from ha.messages import Data
from orchestrator import api
from orchestrator.api.plan_files import apply_plan, move_plans, rebalance, undo
from orchestrator.control.decide.drill_records import LONGEST_LINK_FAULT_US
from orchestrator.control.observe.view import read_view
from orchestrator.host.core.events import Event, MessageArrived
from orchestrator.records import ApplyPlanRequest, DisturbedLink
from orchestrator.simulation.world.hosts import SimulatedHost
from orchestrator.simulation.world.scenario import Scenario
from orchestrator.store.protocol import LINKS
from tests.pairs import FRAGMENTS, NODES, SETTLE_S, SITES, Input
from tests.simulation.test_moving import (
    assert_exact,
    cluster,
    free,
    nodes,
    passing,
    records,
    settle,
)

MEASURED_S = 32.0
"""After which the rates of fragments are known."""

SLOWER_MS = 40.0
USED_S = 8.0


@pytest.fixture(scope="module")
def recording() -> Input:
    return Input.random(seed=7, seconds=14)


@pytest.fixture
def scenario(recording: Input, tmp_path: Path) -> Scenario:
    made = Scenario(recording.manifests(tmp_path), seed=1, check_invariants=True, settle_s=SETTLE_S)
    made.begin()
    made.run_for(1)
    return made


def carried_out(scenario: Scenario, plan: api.PlanFile) -> None:
    wish = ApplyPlanRequest(plan=plan, at_a_time=2, throttle_bytes_s=1e6)
    apply_plan(cluster(scenario), wish, wait=False, on_progress=passing(scenario))
    settle(scenario)


def test_what_a_plan_has_moved_is_taken_back(scenario: Scenario, recording: Input) -> None:
    before = {name: nodes(record) for name, record in records(scenario).items()}
    target = next(free(scenario, "pairs"))
    api.move(
        cluster(scenario), "pairs", "primary", target, wait=False, on_progress=passing(scenario)
    )
    settle(scenario)
    carried_out(scenario, undo(cluster(scenario), on_progress=passing(scenario)))
    assert {name: nodes(record) for name, record in records(scenario).items()} == before
    undone, moved = move_plans(cluster(scenario)).plans
    assert (undone.undo_of, undone.outcome) == (moved.name, "1 of 1 done")
    assert_exact(scenario.finish(), recording)


def test_what_is_worth_it_is_moved_and_nothing_is_left_to_move(
    scenario: Scenario, recording: Input
) -> None:
    """Every fragment is moved to where it costs most; the plan brings back what is worth it."""
    for name in FRAGMENTS:
        usage: dict[str, float] = {}
        for node in free(scenario, name):
            planned = api.move(
                cluster(scenario), name, "primary", node, dry_run=True,
                on_progress=passing(scenario),
            )  # fmt: skip
            usage[node] = (planned.moves[0].latency_ms or (0.0, 0.0))[1]
        worst = max(usage, key=lambda node: (usage[node], node))
        api.move(
            cluster(scenario), name, "primary", worst, wait=False, on_progress=passing(scenario)
        )
        settle(scenario)
    plan = rebalance(cluster(scenario), on_progress=passing(scenario))
    assert plan.moves
    assert plan.rebalancing is not None
    assert plan.rebalancing.cost_bytes[1] < plan.rebalancing.cost_bytes[0]
    carried_out(scenario, plan)
    view = read_view(scenario.store)
    expected = {e.fragment: (e.primary, e.secondary) for e in plan.rebalancing.after}
    assert {key: nodes(found.record) for key, found in view.fragments.items()} == expected
    assert not rebalance(cluster(scenario), on_progress=passing(scenario)).moves
    assert {node for pair in expected.values() for node in pair} <= {*NODES}
    assert_exact(scenario.finish(), recording)


def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, str]]:
    """Values of tuples that come from one host to another: all are numbers of the same width."""
    values: Counter[tuple[str, str]] = Counter()
    arrive = SimulatedHost.arrive

    def count(host: SimulatedHost, event: Event) -> None:
        if isinstance(event, MessageArrived) and isinstance(event.message, Data):
            data = event.message
            columns = data.chunk.rows.num_columns if data.columns is None else len(data.columns)
            values[event.sender, host.spec.node] += columns * data.chunk.rows.num_rows
        arrive(host, event)

    monkeypatch.setattr(SimulatedHost, "arrive", count)
    return values


def usage(
    scenario: Scenario, sent: Counter[tuple[str, str]], links: Sequence[DisturbedLink]
) -> float:
    """What hosts send in a while, times what the way takes."""
    before = sent.copy()
    scenario.run_for(USED_S)
    delays_ms = read_view(scenario.store).settings.delays_ms
    slower_ms = {(each.source, each.target): each.delay_ms or 0.0 for each in links}
    return sum(
        count * (delays_ms[here][there] + slower_ms.get((here, there), 0.0))
        for (here, there), count in (sent - before).items()
    )


@pytest.mark.long
def test_network_usage_falls_by_as_much_as_the_plan_has_stated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links of the node that runs a primary become slower, as drills make them."""
    recording = Input.random(seed=7, seconds=110)
    made = Scenario(recording.manifests(tmp_path), seed=1, settle_s=SETTLE_S)
    sent = counted(monkeypatch)
    made.begin()
    made.run_for(MEASURED_S)
    before = {name: nodes(record) for name, record in records(made).items()}
    node = before["pairs"][0]
    until_us = made.world.now_us + LONGEST_LINK_FAULT_US - 1_000_000
    links = [
        DisturbedLink(source=source, target=target, until_us=until_us, delay_ms=SLOWER_MS)
        for site in SITES
        for source, target in ((node, site), (site, node))
    ]
    for link in links:
        made.store.create(LINKS.key(link.name), link)
    made.run_for(5)
    used = usage(made, sent, links)
    plan = rebalance(cluster(made), on_progress=passing(made))
    assert plan.rebalancing is not None
    changes = [query for move in plan.rebalancing.moves for query in move.queries]
    was, now = changes[0].network_usage_bytes[0], changes[-1].network_usage_bytes[1]
    carried_out(made, plan)
    made.run_for(MEASURED_S)
    assert usage(made, sent, links) / used == pytest.approx(now / was, rel=0.1)
    assert not rebalance(cluster(made), on_progress=passing(made)).moves
    carried_out(made, undo(cluster(made), on_progress=passing(made)))
    assert {name: nodes(record) for name, record in records(made).items()} == before
    assert_exact(made.finish(), recording)
