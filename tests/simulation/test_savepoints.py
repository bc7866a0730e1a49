"""A savepoint is whole or not there, and another cluster goes on from it exactly."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec import structs

from orchestrator.checkpoints.checkpoint_file import CheckpointRefused
from orchestrator.checkpoints.savepoint import Savepoint
from orchestrator.checkpoints.savepoint_index import INDEX
from orchestrator.control.observe.view import read_view
from orchestrator.deploy.restoring import restore
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.sinks.delivered import GENERATION, SEQUENCE, Delivered
from orchestrator.manifest import PlaceManifest
from orchestrator.records import SavepointRecord, SavepointState, StateSpec
from orchestrator.simulation.world.memory_checkpoints import MemorySavepoint
from orchestrator.simulation.world.scenario import Scenario
from orchestrator.store.protocol import SAVEPOINTS
from tests.long_tests import mostly_long
from tests.pairs import FRAGMENTS, NODES, SETTLE_S, SITES, Input, Rows
from tests.simulation.test_checkpoints import EVERY_MS, SECONDS, begin, kinds
from tests.simulation.test_everything_dies import Kind, entering, kill_for_a_while, replicas_of

NAME = "before"

APART_S = 40.0
"""From the end of one cluster to the beginning of the other one."""


def ask(scenario: Scenario, name: str = NAME) -> None:
    record = SavepointRecord(name=name, asked_us=scenario.world.now_us)
    scenario.store.create(SAVEPOINTS.key(name), record)


def record_of(scenario: Scenario, name: str = NAME) -> SavepointRecord:
    found = scenario.store.get(SAVEPOINTS.key(name))
    assert found is not None
    return found.record


def kept(scenario: Scenario, name: str = NAME) -> Savepoint:
    return Savepoint(MemorySavepoint(scenario.world.checkpoints, name))


def await_end(scenario: Scenario, name: str = NAME, most_s: float = 100.0) -> SavepointRecord:
    while record_of(scenario, name).ended_us is None and most_s > 0:
        scenario.run_for(0.5)
        most_s -= 0.5
    return record_of(scenario, name)


def elsewhere(
    folder: Path,
    recording: Input,
    kind: Kind,
    former: Scenario,
    seed: int,
    apart_s: float = APART_S,
) -> Scenario:
    """Another cluster, of fewer nodes with other names, that goes on from the savepoint."""
    former.stop()
    former.run_for(3.0)
    # Sites of the other cluster have what the savepoint has of their journals, and no more.
    shutil.rmtree(folder / "journals", ignore_errors=True)
    manifests = recording.manifests(folder)
    cluster = manifests.cluster
    assert cluster is not None
    places: list[PlaceManifest] = list(cluster.nodes)[1:]
    nodes = tuple(structs.replace(each, name=f"other-{each.name}") for each in places)
    state = StateSpec(folder="state", every_ms=EVERY_MS)
    settings = structs.replace(cluster.record, state=state, id="another")
    cluster = structs.replace(cluster, record=settings, nodes=nodes)
    manifests = structs.replace(manifests, cluster=cluster)
    streams = [entering(m.record, folder, kind) for m in manifests.streams]
    scenario = Scenario(
        manifests,
        seed=seed,
        streams=streams,
        check_invariants=True,
        settle_s=SETTLE_S,
        start_us=former.world.now_us + round(apart_s * 1e6),
    )
    folders = scenario.world.checkpoints.folders
    now_us = scenario.world.now_us
    restore(scenario.store, kept(former), NAME, folder, now_us, folder=folders[0], archive=folder)
    return scenario


def assert_goes_on(scenario: Scenario, recording: Input, savepoint: Savepoint) -> None:
    """Each result from some number up to the savepoint's on came, once, under its number."""
    assert "state lost" not in kinds(scenario)
    for stream, expected in recording.expected().items():
        deliveries = scenario.deliveries[stream]
        seen = Delivered.from_deliveries(deliveries, deliveries[0].chunk.rows.schema)
        assert seen.completed_column("watermark_ms")[-1] == recording.end_ms
        assert sequence_faults(seen) == SequenceFaults(lost=0, repeated=0)
        numbered: list[tuple[int, tuple[int, ...]]] = []
        for row in seen.rows.to_pylist():
            own = tuple(v for name, v in row.items() if name not in (GENERATION, SEQUENCE))
            numbered.append((row[SEQUENCE], own))
        saved = savepoint.index.of(f"pairing.{stream}")
        assert saved is not None
        first = numbered[0][0]
        assert first <= saved.stored.output.next_seq
        # Tuples of one timestamp have no order among them that the oracle knows.
        rows: Rows = [own for _, own in numbered]
        assert sorted(rows) == sorted(expected[len(expected) - len(rows) :])
        assert first == len(expected) - len(rows)
        generations = set(seen.rows[GENERATION].to_pylist())
        assert generations == {saved.stored.generation}


@pytest.mark.parametrize("kind", [Kind.REPLAY, Kind.JOURNAL])
@pytest.mark.parametrize("seed", mostly_long(range(4)))
def test_another_cluster_goes_on_exactly(tmp_path: Path, seed: int, kind: Kind) -> None:
    recording = Input.random(seed=160 + seed, seconds=SECONDS)
    scenario = begin(tmp_path, recording, seed, kind)
    ask(scenario)
    assert await_end(scenario).state is SavepointState.KEPT
    savepoint = kept(scenario)
    assert {each.fragment for each in savepoint.check()} == {f"pairing.{f}" for f in FRAGMENTS}
    other = elsewhere(tmp_path, recording, kind, scenario, seed)
    other.run_for(70.0)
    assert_goes_on(other, recording, savepoint)
    assert kinds(other).count("restored") >= len(FRAGMENTS)


@pytest.mark.parametrize("kind", mostly_long([Kind.JOURNAL, Kind.REPLAY]))
def test_another_cluster_goes_on_although_its_clock_is_an_hour_behind(
    tmp_path: Path, kind: Kind
) -> None:
    recording = Input.random(seed=160, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 0, kind)
    ask(scenario)
    assert await_end(scenario).state is SavepointState.KEPT
    savepoint = kept(scenario)
    other = elsewhere(tmp_path, recording, kind, scenario, 0, apart_s=-3600.0)
    other.run_for(50.0)
    assert_goes_on(other, recording, savepoint)


def test_checkpoints_are_written_at_once_for_it(tmp_path: Path) -> None:
    recording = Input.random(seed=170, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 1, after_s=5.0)
    asked_us = scenario.world.now_us
    ask(scenario)
    assert await_end(scenario, most_s=5.0).state is SavepointState.KEPT
    for saved in kept(scenario).index.saved:
        assert asked_us <= saved.stored.at_us < asked_us + 1_500_000
    # They are files of their own: what the cluster keeps for itself goes its own way.
    scenario.world.checkpoints.files.clear()
    assert len([*kept(scenario).check()]) == len(FRAGMENTS)


@pytest.mark.parametrize("after", mostly_long([4, 0, 1, 2, 3, 5]))
def test_the_next_leader_goes_on_wherever_the_former_one_is_killed(
    tmp_path: Path, after: int
) -> None:
    recording = Input.random(seed=171, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 2, after_s=5.0)
    ask(scenario)
    folders = scenario.world.checkpoints
    while len(folders.saved) < min(after, len(FRAGMENTS)):
        scenario.run_for(0.05)
        assert not any(file == INDEX for _, file in folders.saved)
    (leader,) = scenario.coordinators.leading
    scenario.coordinators.kill_after(leader, max(after - len(FRAGMENTS), 0))
    scenario.run_for(2.0)
    for name in scenario.coordinators.names:
        if scenario.coordinators.store_of(name).writes_left is not None:
            scenario.coordinators.kill(name)
    scenario.coordinators.stand()
    assert await_end(scenario).state is SavepointState.KEPT
    assert len([*kept(scenario).check()]) == len(FRAGMENTS)


def test_a_folder_that_takes_nothing_leaves_nothing_behind(tmp_path: Path) -> None:
    recording = Input.random(seed=172, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 3, after_s=5.0)
    folders = scenario.world.checkpoints
    ask(scenario)
    while len(folders.saved) < 2:
        scenario.run_for(0.05)
    folders.fails = "the folder of checkpoints is full"
    record = await_end(scenario)
    assert (record.state, record.why) == (SavepointState.FAILED, folders.fails)
    scenario.run_for(1.0)
    assert not folders.saved
    assert "savepoint failed" in kinds(scenario)


def test_a_damaged_checkpoint_is_not_copied(tmp_path: Path) -> None:
    recording = Input.random(seed=173, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 4, after_s=5.0)
    folders = scenario.world.checkpoints
    ask(scenario)
    while not record_of(scenario).pieces:
        scenario.run_for(0.05)
    piece = next(each for each in reversed(record_of(scenario).pieces) if each.crc32 is None)
    of = piece.fragment, piece.checkpoint
    folders.files[of] = folders.files[of][:-30]
    record = await_end(scenario)
    assert record.state is SavepointState.FAILED
    assert piece.fragment in record.why
    assert "is damaged" in record.why
    scenario.run_for(1.0)
    assert not folders.saved


def test_a_damaged_piece_is_refused_before_anything_goes_on(tmp_path: Path) -> None:
    recording = Input.random(seed=174, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 5, after_s=5.0)
    ask(scenario)
    assert await_end(scenario).state is SavepointState.KEPT
    folders = scenario.world.checkpoints
    of = next(each for each in folders.saved if each[1] != INDEX)
    folders.saved[of] = folders.saved[of][:40] + b"?" + folders.saved[of][41:]
    with pytest.raises(CheckpointRefused, match="checksum does not match"):
        list(kept(scenario).check())


@pytest.mark.parametrize("fragment", mostly_long(["pairs", "strong"]))
def test_replicas_are_killed_while_it_is_taken(tmp_path: Path, fragment: str) -> None:
    recording = Input.random(seed=175, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 6, after_s=5.0)
    ask(scenario)
    scenario.run_for(0.1)
    kill_for_a_while(scenario, replicas_of(scenario, fragment))
    record = await_end(scenario)
    assert record.state is SavepointState.KEPT
    other = elsewhere(tmp_path, recording, Kind.JOURNAL, scenario, 6)
    other.run_for(70.0)
    assert_goes_on(other, recording, kept(scenario))


@pytest.mark.long
def test_everything_dies_while_it_is_taken(tmp_path: Path) -> None:
    recording = Input.random(seed=176, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 7, after_s=5.0)
    ask(scenario)
    scenario.run_for(0.25)
    kill_for_a_while(scenario, (*NODES, *SITES))
    assert await_end(scenario).state is SavepointState.KEPT
    other = elsewhere(tmp_path, recording, Kind.JOURNAL, scenario, 7)
    other.run_for(70.0)
    assert_goes_on(other, recording, kept(scenario))


def test_a_deleted_savepoint_leaves_nothing_behind_also_while_it_is_made(tmp_path: Path) -> None:
    recording = Input.random(seed=177, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 8, after_s=5.0)
    ask(scenario)
    while len(scenario.world.checkpoints.saved) < 1:
        scenario.run_for(0.05)
    key = SAVEPOINTS.key(NAME)
    found = scenario.store.get(key)
    assert found is not None
    deleted = structs.replace(found.record, state=SavepointState.DELETED)
    scenario.store.update(key, deleted, found.version)
    scenario.run_for(2.0)
    assert scenario.store.get(key) is None
    assert not scenario.world.checkpoints.saved
    assert not read_view(scenario.store).savepoints
