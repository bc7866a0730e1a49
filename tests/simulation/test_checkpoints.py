"""A cluster with a folder of checkpoints: nothing is lost that a checkpoint and a source have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from operator import itemgetter
from pathlib import Path

import pytest
from msgspec import structs

from orchestrator.control.observe.view import read_view
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.sinks.delivered import GENERATION, Delivered
from orchestrator.records import StateSpec
from orchestrator.simulation.world.scenario import Scenario
from tests import pairs
from tests.long_tests import mostly_long
from tests.pairs import NODES, SETTLE_S, SITES, Input, answer
from tests.simulation.test_clocks import HOUR_US
from tests.simulation.test_everything_dies import (
    AWAY_S,
    BACK_S,
    Kind,
    entering,
    kill_for_a_while,
    replicas_of,
)

SECONDS = 16
EVERY_MS = 2000.0


def begin(
    folder: Path,
    recording: Input,
    seed: int,
    kind: Kind = Kind.JOURNAL,
    after_s: float = 6.0,
    others: Mapping[str, Kind] = {},
) -> Scenario:
    manifests = recording.manifests(folder)
    cluster = manifests.cluster
    assert cluster is not None
    state = StateSpec(folder="state", every_ms=EVERY_MS)
    cluster = structs.replace(cluster, record=structs.replace(cluster.record, state=state))
    manifests = structs.replace(manifests, cluster=cluster)
    entered = [m.record for m in manifests.streams]
    streams = [entering(each, folder, others.get(each.name, kind)) for each in entered]
    scenario = Scenario(
        manifests, seed=seed, streams=streams, check_invariants=True, settle_s=SETTLE_S
    )
    scenario.begin()
    scenario.run_for(after_s + 0.137 * seed)
    return scenario


def kinds(scenario: Scenario) -> list[str]:
    return [each.event.kind for each in scenario.store.history()]


def assert_exact(scenario: Scenario, recording: Input, generations: int = 1) -> None:
    """Each result came once, under the number that it would have had."""
    assert "input lost" not in kinds(scenario)
    for stream, expected in recording.expected().items():
        kept = scenario.deliveries[stream]
        seen = Delivered.from_deliveries(kept, kept[0].chunk.rows.schema)
        assert seen.completed_column("watermark_ms")[-1] == recording.end_ms
        assert answer(seen) == expected
        assert sequence_faults(seen) == SequenceFaults(lost=0, repeated=0)
        assert len(set(seen.rows[GENERATION].to_pylist())) == generations


def problems(scenario: Scenario) -> list[str]:
    nodes = read_view(scenario.store).nodes.values()
    return [problem for node in nodes for problem in node.record.problems]


def listed(scenario: Scenario) -> dict[str, list[str]]:
    found = read_view(scenario.store).checkpoints
    return {key: [each.name for each in of.record.stored] for key, of in found.items()}


@pytest.mark.parametrize("kind", [Kind.REPLAY, Kind.JOURNAL])
@pytest.mark.parametrize("seed", mostly_long(range(6)))
def test_every_process_is_killed_at_once(tmp_path: Path, seed: int, kind: Kind) -> None:
    recording = Input.random(seed=60 + seed, seconds=SECONDS)
    scenario = begin(tmp_path, recording, seed, kind)
    kill_for_a_while(scenario, (*NODES, *SITES))
    assert "state lost" not in kinds(scenario)
    assert kinds(scenario).count("restored") >= len(listed(scenario))
    assert_exact(scenario, recording)


def test_after_a_power_cut_the_machine_s_clock_is_an_hour_behind(tmp_path: Path) -> None:
    """Replays go on all the same, and not once it is as late again."""
    recording = Input.random(seed=71, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 1, Kind.REPLAY)
    for node in (*NODES, *SITES):
        scenario.world.kill(node)
    scenario.world.set_clock("n1", -HOUR_US, 0.0)
    scenario.world.machine_of("n1").reboot()
    scenario.run_for(AWAY_S)
    for node in (*NODES, *SITES):
        scenario.world.restart(node)
    scenario.run_for(BACK_S)
    assert "state lost" not in kinds(scenario)
    assert_exact(scenario, recording)


def test_sites_stand_still_while_checkpoints_are_read(tmp_path: Path) -> None:
    """They then respond at once to all that was asked before the checkpoints were read."""
    recording = Input.random(seed=60, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 0)
    world = scenario.world

    def stand_still() -> None:
        for site in SITES:
            world.pause(site)
            world.at(world.now_us + 2_000_000, partial(world.resume, world.hosts[site]))

    world.checkpoints.reads_us, world.checkpoints.once_asked = 400_000, stand_still
    kill_for_a_while(scenario, (*NODES, *SITES))
    assert "state lost" not in kinds(scenario)
    assert_exact(scenario, recording)


@pytest.mark.parametrize("fragment", mostly_long(["pairs", "strong"]))
def test_both_replicas_are_killed(tmp_path: Path, fragment: str) -> None:
    recording = Input.random(seed=64, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 1)
    kill_for_a_while(scenario, replicas_of(scenario, fragment))
    assert "state lost" not in kinds(scenario)
    assert_exact(scenario, recording)


@pytest.mark.long
def test_everything_dies_again_while_it_resumes(tmp_path: Path) -> None:
    recording = Input.random(seed=67, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 2)
    for rest_s in (1.2, 3.1):
        everybody: Iterable[str] = (*NODES, *SITES)
        for node in everybody:
            scenario.world.kill(node)
        scenario.run_for(1.0)
        for node in everybody:
            scenario.world.restart(node)
        scenario.run_for(rest_s + 12.0)
    scenario.run_for(25.0)
    assert "state lost" not in kinds(scenario)
    assert_exact(scenario, recording)


def test_a_damaged_checkpoint_is_skipped_and_said(tmp_path: Path) -> None:
    recording = Input.random(seed=68, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 3)
    files, newest = scenario.world.checkpoints.files, listed(scenario)["pairing.pairs"][-1]
    files["pairing.pairs", newest] = files["pairing.pairs", newest][:-40]
    kill_for_a_while(scenario, (*NODES, *SITES))
    scenario.run_for(15.0)
    assert "state lost" not in kinds(scenario)
    assert newest not in listed(scenario)["pairing.pairs"]
    assert scenario.world.checkpoints.counters["unreadable"]
    assert_exact(scenario, recording)


@pytest.mark.long
def test_without_any_checkpoint_the_history_says_why_it_begins_from_nothing(
    tmp_path: Path,
) -> None:
    recording = Input.random(seed=69, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 4)
    scenario.world.checkpoints.files.clear()
    kill_for_a_while(scenario, (*NODES, *SITES))
    scenario.run_for(90.0)
    lost = [each.event for each in scenario.store.history() if each.event.kind == "state lost"]
    assert {each.subject for each in lost} == listed(scenario).keys()
    assert all("it goes on from no checkpoint: there is none" in each.detail for each in lost)
    assert_exact(scenario, recording, generations=2)


def test_a_folder_that_takes_nothing_harms_nothing_that_runs(tmp_path: Path) -> None:
    recording = Input.random(seed=70, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 5, after_s=3.0)
    before = listed(scenario)
    scenario.world.checkpoints.fails = "the folder of checkpoints is full"
    scenario.run_for(5.0)
    assert listed(scenario) == before
    assert scenario.world.checkpoints.counters["refused"]
    said = "checkpoint not kept: the folder of checkpoints is full"
    assert any(said in each for each in problems(scenario))
    scenario.world.checkpoints.fails = None
    scenario.run_for(30.0)
    assert not any("checkpoint" in each for each in problems(scenario))
    assert listed(scenario) != before
    assert_exact(scenario, recording)


def test_what_a_reader_of_a_sensor_cannot_have_again_costs_its_producer_no_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pairs` begins from nothing and would have minutes of `strong`, which counts for ever."""
    counted = "ISTREAM(SELECT key, count(*) AS twice FROM west [RANGE UNBOUNDED] GROUP BY key)"
    written = "RSTREAM(SELECT key, value * 2 AS twice FROM west [NOW] WHERE value >= 20)"
    statements = pairs.STATEMENTS.replace(written, counted).replace("3 SECONDS", "5 MINUTES")
    monkeypatch.setattr(pairs, "STATEMENTS", statements)
    recording = Input.random(seed=60, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 0, others={"east": Kind.SENSOR}, after_s=9.0)
    kill_for_a_while(scenario, (*NODES, *SITES))
    told = [each.event for each in scenario.store.history()]
    states = {
        kind: {e.subject for e in told if e.kind == kind} for kind in ("restored", "state lost")
    }
    # The sink has counts from after the last checkpoint of these, whose numbers others would get.
    assert states["state lost"] == {"pairing.pairs", "pairing.pair_counts"}
    assert "pairing.strong" in states["restored"]
    kept = scenario.deliveries["pairs"]
    rows = Delivered.from_deliveries(kept, kept[0].chunk.rows.schema).rows.to_pylist()
    found = {row["key"]: row["twice"] for row in sorted(rows, key=itemgetter("twice"))}
    assert found == Counter(key for _, key, _ in recording.west)
