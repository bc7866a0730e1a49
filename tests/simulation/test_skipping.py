"""A statement that fails on some tuples, whose owner wants them left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from foundation.timestamps import timestamp_text
from orchestrator.control.decide.decision import DecisionSettings
from orchestrator.control.observe.view import read_view
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.manifest import Manifests, load
from orchestrator.simulation.world.scenario import Scenario
from orchestrator.store.protocol import PROBLEMS
from streams.evaluate.rejected_count import RejectedCount
from tests.fragile import FATAL, fragile_function
from tests.pairs import BEGIN_MS, SETTLE_S, Input, answer, assert_exact

STRONG = "pairing.strong"


@pytest.fixture(autouse=True)
def _fragile() -> Iterator[None]:
    with fragile_function():
        yield


@pytest.fixture
def recording() -> Input:
    return Input.random(seed=3, seconds=12)


def manifests(recording: Input, folder: Path, more: str) -> Manifests:
    """Those of a query that fails on some readings of `west`."""
    file = recording.write(folder)
    text = file.read_text().replace("WHERE value >= 20", "WHERE fragile(value) >= 20")
    if more:
        text = text.replace("outputs: {pairs: exit, pair_counts: exit}\n", more)
    file.write_text(text)
    return load([file])


def counts(scenario: Scenario) -> list[RejectedCount]:
    """What each replica of `strong` has left out, or nothing if its owner did not ask for that."""
    replicas = [
        host.core.replica_manager.replicas.get("strong")
        for host in scenario.world.hosts.values()
        if host.alive
    ]
    found = [each.replica.rejected_count for each in replicas if each is not None]
    return [each or RejectedCount() for each in found]


def test_both_replicas_leave_out_the_same_tuples_while_one_of_them_dies(
    tmp_path: Path, recording: Input
) -> None:
    fatal = {at_ms for at_ms, _, value in recording.west if value == FATAL}
    more = "onError: skip\noutputs: {pairs: exit, pair_counts: exit, strong.rejected: exit}\n"
    assert fatal
    left_out = [row for row in recording.west if row[0] in fatal]
    rest = replace(recording, west=[row for row in recording.west if row[0] not in fatal])
    scenario = Scenario(manifests(recording, tmp_path, more), seed=5, settle_s=SETTLE_S)
    scenario.begin()
    scenario.run_for((min(fatal) - BEGIN_MS) / 1000 + 2)
    said = [p for node in read_view(scenario.store).hosts.values() for p in node.problems]
    assert any(each.startswith("strong: tuples rejected: by pairing.strong at ") for each in said)
    scenario.drill("strong")
    scenario.drill("strong.rejected")
    played = scenario.finish()
    assert_exact(played, rest)
    delivered = played.delivered("strong.rejected")
    assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
    assert answer(delivered) == sorted(
        (at_ms, "west", "FragileError: 13 is unlucky", f'{{"_ts":{at_ms},"key":{k},"value":{v}}}')
        for at_ms, k, v in left_out
    )
    one, other = counts(scenario)
    assert one == other
    assert (one.tuples, one.groups, one.states) == (len(left_out), len(fatal), 0)
    events = [each.event for each in scenario.store.history()]
    assert not [each for each in events if each.kind in ("replica failed", "state lost")]
    told = [each.detail for each in events if each.kind == "tuples rejected"]
    assert f"{len(left_out)} in all; last at {timestamp_text(max(fatal))}, FragileError" in told[-1]
    assert len(told) == len(set(told)) <= len(fatal)


@pytest.mark.slow
def test_by_default_it_starts_over_some_times_then_stays_stopped(
    tmp_path: Path, recording: Input
) -> None:
    every = replace(recording, west=[(at_ms, key, FATAL) for at_ms, key, _ in recording.west])
    scenario = Scenario(manifests(every, tmp_path, ""), seed=5, settle_s=SETTLE_S)
    scenario.begin()
    scenario.run_for(1)
    # What fails, when and with which tuples is said at once.
    said = [p for node in read_view(scenario.store).hosts.values() for p in node.problems]
    first = timestamp_text(every.west[0][0])
    wanted = f"pairing.strong cannot be evaluated at {first}, FragileError: 13"
    assert any(wanted in each and 'tuples 1 of west: [{"_ts"' in each for each in said)
    scenario.run_for(110)
    events = [each.event for each in scenario.store.history() if each.event.subject == STRONG]
    lost = [each for each in events if each.kind == "state lost"]
    assert len(lost) == DecisionSettings().most_restarts
    (stopped,) = [each for each in events if each.kind == "stopped"]
    assert stopped.at_us > lost[-1].at_us
    for each in (*lost, stopped):
        assert wanted in each.detail
    assert counts(scenario) == []
    found = scenario.store.get(PROBLEMS)
    assert found is not None
    (problem,) = [each for each in found.record.problems if STRONG in each]
    assert wanted in problem
    assert problem.endswith("or with `onError: skip`: `vivace apply`")
    # Another coordinator does not start it again.
    scenario.kill_leader()
    scenario.run_for(30)
    events = [each.event for each in scenario.store.history() if each.event.subject == STRONG]
    assert events[-1] == stopped
