"""A paused query gives no results, and goes on exactly where it was, whatever dies meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from orchestrator import api
from orchestrator.api import pausing
from orchestrator.control.decide.decision import DecisionSettings
from orchestrator.control.decide.pausing import check_pause, check_resume
from orchestrator.control.decide.writes import decide
from orchestrator.control.observe.view import read_view
from orchestrator.deploy.context import ClusterContext
from orchestrator.errors import InvalidInput, Refused
from orchestrator.records import ClocksRecord, InputStatus, PauseRecord, QueryRecord
from orchestrator.results.pauses import QueryPause
from orchestrator.simulation.world.scenario import Scenario
from orchestrator.store.protocol import PAUSES, Versioned
from tests.long_tests import mostly_long
from tests.pairs import BEGIN_MS, FRAGMENTS, NODES, SITES, Input
from tests.simulation.test_checkpoints import SECONDS, assert_exact, begin, kinds, listed
from tests.simulation.test_everything_dies import BACK_S, Kind, kill_for_a_while, replicas_of

QUERY = "pairing"
PAUSES_S = 2.0
"""Time for checkpoints and records."""


def pause(scenario: Scenario) -> None:
    view = read_view(scenario.store)
    life = view.number_of(view.queries[QUERY])
    record = PauseRecord(query=QUERY, life=life, asked_us=scenario.world.now_us)
    scenario.store.create(PAUSES.key(QUERY), record)


def resume(scenario: Scenario) -> None:
    found = scenario.store.get(PAUSES.key(QUERY))
    assert found is not None
    scenario.store.delete(PAUSES.key(QUERY), found.version)


def paused(scenario: Scenario) -> set[str]:
    found = read_view(scenario.store).fragments.values()
    return {each.record.fragment for each in found if each.record.paused}


def delivered(scenario: Scenario) -> dict[str, int]:
    return {stream: len(kept) for stream, kept in scenario.deliveries.items()}


def assert_silent(scenario: Scenario, seconds: float) -> None:
    """The query is paused, nothing of it runs, and it gives no results."""
    assert paused(scenario) == {*FRAGMENTS}
    before = delivered(scenario)
    scenario.run_for(seconds)
    assert delivered(scenario) == before
    assert paused(scenario) == {*FRAGMENTS}
    for host in scenario.world.hosts.values():
        assert not host.runs or not host.core.replica_manager.replicas


@pytest.mark.parametrize("kind", [Kind.REPLAY, Kind.JOURNAL])
@pytest.mark.parametrize("seed", mostly_long(range(4)))
def test_nothing_is_lost_or_repeated(tmp_path: Path, seed: int, kind: Kind) -> None:
    recording = Input.random(seed=260 + seed, seconds=SECONDS)
    scenario = begin(tmp_path, recording, seed, kind)
    pause(scenario)
    scenario.run_for(PAUSES_S)
    assert_silent(scenario, 1.0)
    # The checkpoints that it goes on from stay, however long that takes.
    kept = listed(scenario)
    assert_silent(scenario, 10.0)
    assert listed(scenario) == kept
    resume(scenario)
    scenario.run_for(BACK_S)
    assert paused(scenario) == set()
    assert "state lost" not in kinds(scenario)
    assert kinds(scenario).count("restored") == len(FRAGMENTS)
    assert_exact(scenario, recording)


def everything_dies(scenario: Scenario) -> None:
    kill_for_a_while(scenario, (*NODES, *SITES))


def sites_die(scenario: Scenario) -> None:
    kill_for_a_while(scenario, SITES)


def leader_dies(scenario: Scenario) -> None:
    for name in scenario.coordinators.leading:
        scenario.coordinators.kill(name)
    scenario.coordinators.stand()
    scenario.run_for(5.0)


@pytest.mark.parametrize("what", mostly_long([everything_dies, sites_die, leader_dies]))
def test_whatever_dies_it_stays_paused_and_goes_on(
    tmp_path: Path, what: Callable[[Scenario], None]
) -> None:
    recording = Input.random(seed=270, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 1)
    pause(scenario)
    scenario.run_for(PAUSES_S)
    what(scenario)
    assert_silent(scenario, 3.0)
    resume(scenario)
    scenario.run_for(BACK_S)
    assert "state lost" not in kinds(scenario)
    assert_exact(scenario, recording)


@pytest.mark.parametrize("writes", mostly_long([2, 0, 1, 3, 4, 6, 9]))
@pytest.mark.parametrize("step", [pause, resume])
def test_the_next_leader_goes_on_wherever_the_former_one_is_killed(
    tmp_path: Path, step: Callable[[Scenario], None], writes: int
) -> None:
    recording = Input.random(seed=271, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 2)
    if step is resume:
        pause(scenario)
        scenario.run_for(PAUSES_S)
    step(scenario)
    (leader,) = scenario.coordinators.leading
    scenario.coordinators.kill_after(leader, writes)
    scenario.run_for(1.0)
    scenario.coordinators.stand()
    scenario.run_for(BACK_S)
    if step is pause:
        assert_silent(scenario, 3.0)
        resume(scenario)
    scenario.run_for(BACK_S)
    assert "state lost" not in kinds(scenario)
    assert_exact(scenario, recording)


@pytest.mark.parametrize("fragment", mostly_long(["pairs", "strong"]))
@pytest.mark.parametrize("step", [pause, resume])
def test_both_replicas_die_meanwhile(
    tmp_path: Path, step: Callable[[Scenario], None], fragment: str
) -> None:
    recording = Input.random(seed=272, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 3)
    if step is resume:
        pause(scenario)
        scenario.run_for(PAUSES_S)
    step(scenario)
    scenario.run_for(0.3)
    kill_for_a_while(scenario, replicas_of(scenario, fragment))
    if step is pause:
        assert_silent(scenario, 3.0)
        resume(scenario)
        scenario.run_for(BACK_S)
    assert "state lost" not in kinds(scenario)
    assert_exact(scenario, recording)


def test_a_pause_that_is_taken_back_at_once_changes_nothing(tmp_path: Path) -> None:
    recording = Input.random(seed=273, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 0)
    for _ in range(4):
        pause(scenario)
        scenario.run_for(0.4)
        resume(scenario)
        scenario.run_for(0.4)
    scenario.run_for(BACK_S)
    assert paused(scenario) == set()
    assert_exact(scenario, recording)


def test_a_query_of_the_same_name_that_is_applied_later_is_not_paused(tmp_path: Path) -> None:
    recording = Input.random(seed=274, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 0)
    record = PauseRecord(query=QUERY, life=1, asked_us=scenario.world.now_us)
    scenario.store.create(PAUSES.key(QUERY), record)
    scenario.run_for(PAUSES_S)
    assert scenario.store.get(PAUSES.key(QUERY)) is None
    assert paused(scenario) == set()


def test_it_is_said_what_can_be_kept_no_longer(tmp_path: Path) -> None:
    scenario = begin(tmp_path, Input.random(seed=275, seconds=SECONDS), 1)
    pause(scenario)
    scenario.run_for(PAUSES_S)
    view, now_us = read_view(scenario.store), scenario.world.now_us
    assert not [each for each in decide(view, now_us, DecisionSettings()).problems if QUERY in each]
    site = view.nodes["west-site"]
    source = site.record.sources["west"]
    dropped = InputStatus(retained_ms=BEGIN_MS + SECONDS * 1000)
    west = structs.replace(source, input=dropped)
    record = structs.replace(site.record, sources=site.record.sources | {"west": west})
    view = replace(view, nodes={**view.nodes, "west-site": replace(site, record=record)})
    (told,) = [each for each in decide(view, now_us, DecisionSettings()).problems if QUERY in each]
    assert told.startswith(
        "query pairing is paused, and pairing.strong would begin anew if resumed"
    )
    # Resumed all the same, that fragment begins anew instead of failing the source for others.
    view = replace(view, pauses={})
    events = [each.event for each in decide(view, now_us, DecisionSettings()).writes if each.event]
    (lost,) = [each for each in events if each.kind == "state lost"]
    assert (lost.subject, "the journal of stream west begins after" in lost.detail) == (
        "pairing.strong",
        True,
    )


def test_what_cannot_pause_is_refused(tmp_path: Path) -> None:
    recording = Input.random(seed=276, seconds=SECONDS)
    view = read_view(begin(tmp_path, recording, 1, Kind.SENSOR, after_s=0.5).store)
    with pytest.raises(Refused, match="of which nothing can be kept"):
        check_pause(view, QUERY)
    with pytest.raises(InvalidInput, match="is not a query here"):
        check_pause(view, "nothing")
    with pytest.raises(InvalidInput, match="is not a query here"):
        check_resume(view, "nothing")
    view = read_view(begin(tmp_path, recording, 1, after_s=0.5).store)
    check_pause(view, QUERY)
    check_resume(view, QUERY)
    reader = QueryRecord(
        name="reader",
        statements="REGISTER QUERY few RSTREAM(SELECT key FROM pairs [NOW] WHERE value > 90)",
        deadline_ms=300.0,
        recovery_bound_ms=300.0,
        outputs={"few": "exit"},
    )
    queries = {**view.queries, "reader": Versioned(record=reader, version=0, created=999)}
    view = replace(view, queries=queries)
    with pytest.raises(Refused, match="makes stream pairs, which query reader reads"):
        check_pause(view, QUERY)
    paused = PauseRecord(query="reader", life=view.number_of(queries["reader"]), asked_us=0)
    check_pause(replace(view, pauses={"reader": Versioned(record=paused, version=0)}), QUERY)
    life = view.number_of(view.queries[QUERY])
    paused = PauseRecord(query=QUERY, life=life, asked_us=0)
    with pytest.raises(Refused, match="reads what query pairing makes, and that is paused"):
        check_resume(replace(view, pauses={QUERY: Versioned(record=paused, version=0)}), "reader")


def test_clients_ask_for_it_and_await_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = begin(tmp_path, Input.random(seed=277, seconds=SECONDS), 0)
    monkeypatch.setattr(pausing.time, "sleep", scenario.run_for)

    def now_us(_clocks: ClocksRecord) -> int:
        return scenario.world.now_us

    monkeypatch.setattr(pausing, "cluster_now_us", now_us)
    reach = ClusterContext(cluster="pairs", pid=1, started_s=0.0, folder="nowhere")
    cluster = api.Cluster(reach, scenario.store)
    told: list[tuple[str, str]] = []
    made = api.pause_query(cluster, QUERY, lambda step, what: told.append((step, what)))
    assert made == QueryPause(query=QUERY, paused=True, changed=True)
    assert told[0][0] == "pausing"
    assert not api.pause_query(cluster, QUERY).changed
    states = {each.secondary_state for each in api.status(cluster).fragments}
    assert states == {"paused"}
    assert not api.status(cluster).degraded
    assert api.resume_query(cluster, QUERY) == QueryPause(query=QUERY, paused=False, changed=True)
    assert not api.resume_query(cluster, QUERY).changed
    asked = [each.event for each in scenario.store.history() if each.event.kind == "pause"]
    assert [each.subject for each in asked] == ["query pairing"]
