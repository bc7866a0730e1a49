"""Recordings of the collision warning: as many tuples as told, each at a time of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from examples.collision_rounds import (
    BEGIN_MS,
    CENTRE,
    MOST_V2V,
    ONBOARD,
    ROUND_MS,
    V2V_MS,
    Rounds,
    rounds,
)
from orchestrator.edges.sources import recorded
from orchestrator.edges.sources.replay import Recording, Replay
from orchestrator.manifest import load

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "collision-warning"
VOLUMES = [15, 0, MOST_V2V, 1]


def times_ms(made: Rounds, stream: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return made.tables[stream]["timestamp"].to_numpy() - BEGIN_MS


def by_round(made: Rounds, stream: str) -> list[int]:
    counts = np.bincount(times_ms(made, stream) // ROUND_MS, minlength=len(VOLUMES))
    return [int(count) for count in counts]


def test_rounds_have_as_many_tuples_as_told() -> None:
    made = rounds(VOLUMES)
    assert by_round(made, "v2v") == VOLUMES
    assert by_round(made, "centre") == [CENTRE] * 4
    assert by_round(made, "onboard") == [ONBOARD] * 4
    assert by_round(made, "own") == [1] * 4
    assert made.length_ms == 4 * ROUND_MS


def test_tuples_of_a_stream_have_timestamps_of_their_own_in_order() -> None:
    made = rounds(VOLUMES)
    for stream in made.tables:
        assert (np.diff(times_ms(made, stream)) > 0).all()


def test_the_centres_come_before_v2v_and_these_with_the_sensors() -> None:
    within = {s: times_ms(rounds([15]), s) for s in ("centre", "v2v", "onboard")}
    assert within["centre"].max() <= 100 < V2V_MS
    assert within["v2v"].min() > 80
    assert within["v2v"].max() <= V2V_MS
    assert within["onboard"].max() <= V2V_MS


def test_seed_decides_the_motion_and_nothing_else() -> None:
    one, same, other = (rounds([15, 15], seed) for seed in (1, 1, 2))
    for stream, table in one.tables.items():
        assert table.equals(same.tables[stream])
        assert times_ms(one, stream).tolist() == times_ms(other, stream).tolist()
    assert not one.tables["v2v"].equals(other.tables["v2v"])


def test_half_of_the_vehicles_approach() -> None:
    """Moving towards the car, which stands at (0, 0): what the queries let through."""
    tables = rounds([16]).tables
    for stream, count in (("v2v", 8), ("onboard", ONBOARD // 2)):
        motions = tables[stream].to_pylist()
        assert sum(m["x"] * m["vx"] + m["y"] * m["vy"] < 0 for m in motions) == count


@pytest.mark.parametrize("volume", [-1, MOST_V2V + 1])
def test_rounds_that_cannot_be_are_refused(volume: int) -> None:
    with pytest.raises(ValueError, match=f"round 1 has {volume} v2v tuples; give 0 to {MOST_V2V}"):
        rounds([0, volume])


def test_files_are_what_the_example_replays(tmp_path: Path) -> None:
    rounds([15, 15]).write(tmp_path)
    for stream in load([EXAMPLE]).streams:
        record = stream.record
        replay = recorded(record)
        assert isinstance(replay, Replay)
        path = tmp_path / replay.recording.name
        assert parquet.read_table(path).column_names == ["timestamp", *record.columns]
        stretch = Replay(
            path=str(path),
            begin_ms=BEGIN_MS,
            end_ms=BEGIN_MS + 2 * ROUND_MS,
            interval_ms=replay.interval_ms,
        )
        recording = Recording.load(stretch, record.columns)
        # A watermark for every tuple, so that each can be scheduled by itself.
        assert int(np.diff(recording.row_ends).max()) == 1
