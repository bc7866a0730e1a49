"""Our half of `failover`, up to the cluster that it runs on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bench.ours_failover import (
    BURST_TUPLES,
    FRAGMENT,
    INTERVAL_MS,
    ROUND_MS,
    ROUND_TUPLES,
    faults,
    judge,
    recording,
    write_input,
)
from bench.silence import KEYS, STEADY_S, TUPLES_PER_S
from orchestrator.control.observe.dataflow import dataflow
from orchestrator.drills.kill_executor import Killed, Target
from orchestrator.drills.measurement import SequenceFaults
from orchestrator.edges.sinks.delivered import GENERATION, SEQUENCE, Delivered, completed_schema
from orchestrator.edges.sources import recorded
from orchestrator.edges.sources.replay import Recording, Replay
from orchestrator.manifest import load
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.vectors.chunk import TIMESTAMP
from tests.unit.streams.running import output


def delivered(
    numbers: Sequence[int], sequence: Sequence[int] | None = None, arrived_us: Sequence[int] = (0,)
) -> Delivered:
    """A delivery of the tuples that went in as these numbers, counted over all rounds."""
    went_in = np.asarray(numbers, dtype=np.int64)
    number = went_in % ROUND_TUPLES
    at_ms = went_in // ROUND_TUPLES * ROUND_MS + number // BURST_TUPLES * 10
    columns = {
        GENERATION: np.ones(len(went_in), dtype=np.int64),
        SEQUENCE: np.asarray(numbers if sequence is None else sequence, dtype=np.int64),
        TIMESTAMP: at_ms,
        "key": number % KEYS,
        "number": number,
    }
    rows = pa.RecordBatch.from_arrays(
        [pa.array(values) for values in columns.values()],
        schema=pa.schema([pa.field(name, pa.int64()) for name in columns]),
    )
    nothing = np.zeros(len(arrived_us), dtype=np.int64)
    came = np.asarray(arrived_us, dtype=np.int64)
    completed = pa.RecordBatch.from_arrays(
        [
            pa.array(column)
            for column in (
                nothing,
                came - 5000,
                came,
                nothing,
                nothing,
                nothing + 1,
                nothing,
                nothing,
            )
        ],
        schema=completed_schema,
    )
    return Delivered(pa.Table.from_batches([completed]), pa.Table.from_batches([rows]))


def test_manifests_are_valid_and_carry_the_load_of_the_spark_half(tmp_path: Path) -> None:
    manifests = load([write_input(tmp_path, executors=3)])
    assert manifests.cluster is not None
    assert len(manifests.cluster.nodes) == 3
    assert manifests.cluster.latencies is None
    (stream,), (query,) = manifests.streams, manifests.queries
    flow = dataflow({stream.record.name: stream.record}, {query.record.name: query.record})
    assert set(flow.fragments) == {FRAGMENT} == set(query.record.outputs)
    replay = recorded(stream.record)
    assert isinstance(replay, Replay)
    assert replay.speed == 1
    assert replay.repeat
    read = Recording.load(replay, stream.record.columns)
    # Every interval has its burst, and the intervals of a round take as long as its tuples.
    assert set(np.diff(read.row_ends).tolist()) == {BURST_TUPLES}
    assert read.row_ends[-1] == ROUND_TUPLES == read.rows.num_rows
    assert len(read.watermarks_ms) * replay.interval_ms == ROUND_MS
    assert 1000 * BURST_TUPLES / replay.interval_ms == TUPLES_PER_S


def evaluated(folder: Path, entered: Sequence[tuple[int, int]]) -> SequenceFaults:
    """Lost and repeated tuples, by their own numbers, after the engine has evaluated the query.

    Parameters
    ----------
    entered
        Timestamp and number of each tuple.
    """
    manifests = load([write_input(folder, executors=2)])
    (stream,), (query,) = manifests.streams, manifests.queries
    columns = stream.record.columns
    (statement,) = parse(query.record.statements)
    compiled = compile_statement(statement, {stream.record.name: columns})
    rows = [(at_ms, number % KEYS, number) for at_ms, number in entered]
    left = output(compiled, {stream.record.name: rows})
    kept = delivered(range(len(left)))
    changed = kept.rows
    for name, at in {TIMESTAMP: 0, "number": 2}.items():
        values = pa.array([row[at] for row in left])
        changed = changed.set_column(changed.column_names.index(name), name, values)
    return faults(Delivered(kept.completed_timestamps, changed))


ENTERED = [(number // BURST_TUPLES * INTERVAL_MS, number) for number in range(10 * BURST_TUPLES)]
AGAIN = slice(3 * BURST_TUPLES, 5 * BURST_TUPLES)


def test_every_tuple_that_enters_leaves(tmp_path: Path) -> None:
    assert evaluated(tmp_path, ENTERED) == SequenceFaults(lost=0, repeated=0)


@pytest.mark.parametrize("later_ms", [0, 1, INTERVAL_MS, 5 * INTERVAL_MS])
def test_a_tuple_that_enters_twice_leaves_twice(tmp_path: Path, later_ms: int) -> None:
    twice = sorted([*ENTERED, *((at_ms + later_ms, number) for at_ms, number in ENTERED[AGAIN])])
    assert evaluated(tmp_path, twice) == SequenceFaults(lost=0, repeated=2 * BURST_TUPLES)


def test_a_tuple_that_does_not_enter_is_lost(tmp_path: Path) -> None:
    less = [*ENTERED[: AGAIN.start], *ENTERED[AGAIN.stop :]]
    assert evaluated(tmp_path, less) == SequenceFaults(lost=2 * BURST_TUPLES, repeated=0)


def test_no_key_occurs_twice_in_an_interval() -> None:
    """The query keeps two tuples of a key: the second is for one that enters again."""
    keys = np.asarray(recording().column(1).to_numpy())
    assert ROUND_TUPLES % KEYS == 0
    assert len(np.unique(keys[:BURST_TUPLES])) == BURST_TUPLES


@pytest.mark.parametrize(
    ("numbers", "sequence", "expected"),
    [
        (range(8), range(8), SequenceFaults(lost=0, repeated=0)),
        ([0, 1, 3], [0, 1, 3], SequenceFaults(lost=1, repeated=0)),
        ([0, 1, 1, 2], [0, 1, 1, 2], SequenceFaults(lost=0, repeated=1)),
        # The system numbers without a gap what it delivers, and yet a tuple is missing, …
        ([0, 1, 3], [0, 1, 2], SequenceFaults(lost=1, repeated=0)),
        # … the first one is, …
        ([1, 2], [0, 1], SequenceFaults(lost=1, repeated=0)),
        # … or one came under two numbers.
        ([0, 1, 1, 2], [0, 1, 2, 3], SequenceFaults(lost=0, repeated=1)),
        (range(ROUND_TUPLES + 3), range(ROUND_TUPLES + 3), SequenceFaults(lost=0, repeated=0)),
    ],
)
def test_faults_show_in_the_tuples_themselves(
    numbers: Sequence[int], sequence: Sequence[int], expected: SequenceFaults
) -> None:
    assert faults(delivered(numbers, sequence)) == expected


def test_silences_are_watched_from_each_kill_until_the_next_steady_stretch_is_over() -> None:
    killed_us, restored_us = 10_000_000, 18_000_000
    until_us = restored_us + round(STEADY_S * 1e6)
    kill = Killed(
        target=Target(node="n", hosts={"n": "i"}, fragments=(), bound_ms=300),
        killed_us=killed_us,
        detected_us=killed_us + 20_000,
        causes=("connection lost",),
        restored_us=restored_us,
    )
    # An answer each 10 ms, but for 70 ms after the kill and 250 ms late in the healing.
    steady = range(0, until_us + 1_000_000, 10_000)
    kept = [t for t in steady if not (0 < t - killed_us < 70_000 or 0 < t - 15_000_000 < 250_000)]
    found = judge(delivered([0], arrived_us=kept), [5_000_000, restored_us], [kill])
    assert found.gaps_ms == pytest.approx([250.0])
    assert found.counts["undisturbed_ms_median"] == pytest.approx(10.0)
    assert found.counts["recovery_ms_median"] == pytest.approx(70.0)
    assert found.counts["detection_ms_median"] == pytest.approx(20.0)
    assert found.counts["lost"] == found.counts["repeated"] == 0
