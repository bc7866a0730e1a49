"""The demo's scenario, whichever node is killed: the real query on a stretch of real traffic."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from examples import fetch
from orchestrator.control.observe.view import read_view
from orchestrator.drills.measurement import SequenceFaults, outage, sequence_faults
from orchestrator.edges.sources import played
from orchestrator.manifest import Manifests, load
from orchestrator.simulation.world.scenario import Scenario, ScenarioOutcome
from tests.aircraft_answer import brute_force
from tests.long_tests import mostly_long

PATHS = [fetch.DATA / f"aircraft-{site}.parquet" for site in fetch.SITES]
FRAGMENTS = ("north_tracks", "south_tracks", "tracks", "alerts", "alerts_per_minute")
OUTPUTS = ("alerts", "alerts_per_minute")
BOUND_MS = 300.0

BEGIN_MS = 1633608001000
"""Start of the recording; alerts come early in it."""
END_MS = BEGIN_MS + 6 * 60_000

pytestmark = pytest.mark.skipif(
    not all(path.exists() for path in PATHS),
    reason="the recording is not fetched; `make data` fetches it",
)

Rows = list[tuple[object, ...]]


@cache
def manifests() -> Manifests:
    return load([Path(fetch.EXAMPLES / "aircraft")])


def scenario() -> Scenario:
    streams = [
        played(stream.record, begin_ms=BEGIN_MS, end_ms=END_MS, speed=180, repeat=False)
        for stream in manifests().streams
    ]
    return Scenario(manifests(), seed=1, streams=streams)


@cache
def undisturbed() -> dict[str, Rows]:
    return rows(scenario().play(kill_after_s=None))


@cache
def disturbed(fragment: str) -> ScenarioOutcome:
    """The node of this fragment's primary is killed mid-stream."""
    return scenario().play(kill_after_s=1.0, target=fragment)


def rows(played: ScenarioOutcome) -> dict[str, Rows]:
    """Everything delivered, with generations and sequence numbers, in the order it came."""
    return {
        stream: [tuple(row.values()) for row in played.delivered(stream).rows.to_pylist()]
        for stream in OUTPUTS
    }


def assert_survived(played: ScenarioOutcome) -> None:
    """Nothing lost, nothing repeated, the same answer, within the bound."""
    assert played.killed is not None
    delivered = [played.delivered(stream) for stream in OUTPUTS]
    for one in delivered:
        assert sequence_faults(one) == SequenceFaults(lost=0, repeated=0)
    assert rows(played) == undisturbed()
    assert outage(played.killed, delivered).recovery_ms <= BOUND_MS


def test_undisturbed_answer_is_that_of_brute_force() -> None:
    positions = pa.concat_tables([parquet.read_table(path) for path in PATHS])
    positions = positions.sort_by([("timestamp", "ascending")])
    at_ms = positions["timestamp"].to_numpy()
    stretch = positions.filter(pa.array((at_ms >= BEGIN_MS) & (at_ms <= END_MS)))
    alerts, counts = brute_force(stretch)
    assert alerts
    answer = undisturbed()
    assert sorted(row[2:] for row in answer["alerts"]) == alerts
    assert [row[2:] for row in answer["alerts_per_minute"]] == [
        row for row in counts if row[0] <= END_MS
    ]


@pytest.mark.parametrize("fragment", mostly_long(FRAGMENTS, quick=2))
def test_killed_primary_mid_stream(fragment: str) -> None:
    played = disturbed(fragment)
    assert_survived(played)
    assert played.killed is not None
    assert f"proximity.{fragment}" in played.killed.target.fragments
    assert set(played.killed.causes) == {"connection lost"}


def test_killed_secondary_of_the_join_mid_stream() -> None:
    made = scenario()
    made.begin()
    made.run_for(1.0)
    secondary = read_view(made.store).fragments["proximity.alerts"].record.secondary
    assert secondary is not None
    assert_survived(made.finish(made.drill(secondary.node)))


def test_same_seed_same_run() -> None:
    one, other = disturbed("alerts"), scenario().play(kill_after_s=1.0, target="alerts")
    assert one.world.trace == other.world.trace
    assert one.killed == other.killed
    assert rows(one) == rows(other)
    for stream in OUTPUTS:
        assert one.delivered(stream).completed_timestamps.equals(
            other.delivered(stream).completed_timestamps
        )
