"""All hosts that have a fragment's state die: what was taken in and not delivered enters again."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from pathlib import Path

import msgspec
import pytest

from orchestrator.control.observe.view import read_view
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.edges.sources import recorded, spec_of
from orchestrator.edges.sources.replay import Replay
from orchestrator.records import StreamRecord
from orchestrator.simulation.trials.pushed import Pushed
from orchestrator.simulation.trials.sensor import Sensor
from orchestrator.simulation.world.scenario import Scenario
from tests.long_tests import mostly_long
from tests.pairs import INTERVAL_MS, NODES, SETTLE_S, SITES, Input, answer

SECONDS = 16
MOST_AT_ONCE = 10
"""Tuples that enter together: of a part of them, the rest is counted, too."""

AWAY_S = 2.0
BACK_S = 25.0
"""Sessions end, states begin from nothing, and all results follow."""


class Kind(Enum):
    """How a stream enters."""

    REPLAY = "replay"
    JOURNAL = "journal"
    """A client pushes it into a site that keeps a journal."""
    SENSOR = "sensor"
    """Nothing of it can be read again."""


def entering(stream: StreamRecord, folder: Path, kind: Kind) -> StreamRecord:
    """A stream that enters in some way."""
    replay = recorded(stream)
    assert isinstance(replay, Replay)
    begin_ms, end_ms = replay.begin_ms, replay.end_ms
    match kind:
        case Kind.REPLAY:
            return stream
        case Kind.JOURNAL:
            made = Pushed(
                path=replay.path,
                begin_ms=begin_ms,
                end_ms=end_ms,
                interval_ms=INTERVAL_MS,
                journals=str(folder / "journals"),
                slack_ms=3 * INTERVAL_MS,
                ends=True,
            )
            source = spec_of("pushed", made)
        case Kind.SENSOR:
            sensor = Sensor(
                path=replay.path,
                begin_ms=begin_ms,
                end_ms=end_ms,
                interval_ms=INTERVAL_MS,
                rewinds=False,
            )
            source = spec_of("sensor", sensor)
    return msgspec.structs.replace(stream, source=source)


def begin(folder: Path, recording: Input, seed: int, kind: Kind = Kind.JOURNAL) -> Scenario:
    manifests = recording.manifests(folder)
    streams = [entering(m.record, folder, kind) for m in manifests.streams]
    scenario = Scenario(
        manifests, seed=seed, streams=streams, check_invariants=True, settle_s=SETTLE_S
    )
    scenario.begin()
    scenario.run_for(6.0 + 0.137 * seed)
    return scenario


def kill_for_a_while(scenario: Scenario, nodes: Iterable[str], apart_s: float = 0.0) -> None:
    for node in nodes:
        scenario.world.kill(node)
        scenario.run_for(apart_s)
    scenario.run_for(AWAY_S)
    for node in nodes:
        scenario.world.restart(node)
    scenario.run_for(BACK_S)


def replicas_of(scenario: Scenario, fragment: str) -> list[str]:
    record = read_view(scenario.store).fragments[f"pairing.{fragment}"].record
    return [replica.node for replica in record.replicas]


def assert_exact(scenario: Scenario, recording: Input) -> None:
    """Each tuple has its results once; the history tells of the lost state, and of no input."""
    kinds = {each.event.kind for each in scenario.store.history()}
    assert "state lost" in kinds
    assert "input lost" not in kinds
    for stream, expected in recording.expected().items():
        kept = scenario.deliveries[stream]
        seen = Delivered.from_deliveries(kept, kept[0].chunk.rows.schema)
        assert seen.completed_column("watermark_ms")[-1] == recording.end_ms
        assert answer(seen) == expected
        assert sequence_faults(seen) == SequenceFaults(lost=0, repeated=0)


@pytest.mark.parametrize("kind", [Kind.REPLAY, Kind.JOURNAL])
@pytest.mark.parametrize("seed", mostly_long(range(4)))
def test_every_process_is_killed_at_once(tmp_path: Path, seed: int, kind: Kind) -> None:
    recording = Input.random(seed=60 + seed, seconds=SECONDS)
    scenario = begin(tmp_path, recording, seed, kind)
    kill_for_a_while(scenario, (*NODES, *SITES))
    assert_exact(scenario, recording)


@pytest.mark.parametrize("fragment", ["strong", "pairs"])
@pytest.mark.parametrize("apart_s", [0.0, 0.15])
def test_both_replicas_are_killed(tmp_path: Path, fragment: str, apart_s: float) -> None:
    recording = Input.random(seed=64, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 1)
    kill_for_a_while(scenario, replicas_of(scenario, fragment), apart_s)
    assert_exact(scenario, recording)


def test_every_host_ends_in_order(tmp_path: Path) -> None:
    recording = Input.random(seed=65, seconds=SECONDS)
    scenario = begin(tmp_path, recording, 2)
    for node in (*NODES, *SITES):
        scenario.terminate(node, restart_s=AWAY_S)
    scenario.run_for(BACK_S)
    assert_exact(scenario, recording)


@pytest.mark.parametrize("journal", [True, False])
def test_results_that_a_full_disk_has_kept_back_are_made_again_or_their_input_is_counted(
    tmp_path: Path, *, journal: bool
) -> None:
    """The sink loses what it holds in memory. The fragments have processed the input of that, so
    sources without a journal keep it no longer."""
    recording = Input.random(seed=66, seconds=SECONDS)
    kind = Kind.JOURNAL if journal else Kind.SENSOR
    scenario = begin(tmp_path, recording, 3, kind)
    scenario.world.disks.full.add("exit")
    scenario.run_for(4.0)
    hosts = dict.fromkeys(
        [*replicas_of(scenario, "strong"), *replicas_of(scenario, "pairs"), "exit"]
    )
    scenario.world.disks.full.clear()
    kill_for_a_while(scenario, hosts)
    if journal:
        assert_exact(scenario, recording)
        return
    lost = [
        (stream, each)
        for found in read_view(scenario.store).nodes.values()
        for status in found.record.replicas.values()
        for stream, each in status.lost_input.items()
    ]
    of_stream = {"west": recording.west, "east": recording.east}
    assert {stream for stream, _ in lost} == of_stream.keys()
    for stream, each in lost:
        gone = [row for row in of_stream[stream] if each.after_ms < row[0] <= each.until_ms]
        assert gone
        assert each.tuples is not None
        assert len(gone) <= each.tuples <= len(gone) + MOST_AT_ONCE
    events = [entry.event for entry in scenario.store.history()]
    told = {event.subject for event in events if event.kind == "input lost"}
    assert told == {"strong", "pairs"}
