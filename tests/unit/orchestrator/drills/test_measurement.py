"""What a failure did, computed from made-up deliveries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from orchestrator.drills.acting import Disturbed
from orchestrator.drills.kill_executor import Killed, Target
from orchestrator.drills.measurement import (
    Differences,
    LongestSilence,
    SequenceFaults,
    differences,
    disturbance,
    longest_silence,
    outage,
    sequence_faults,
)
from orchestrator.edges.events import Deliver
from orchestrator.edges.sinks.archive import Archive
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.records import SinkAssignment
from orchestrator.results.drill_report import Blast
from streams.vectors.chunk import Chunk
from tests.streams_of_numbers import chunk, schema


def deliver(part: Chunk, *, lost: int = 0, arrived_us: int = 0, generation: int = 1) -> Deliver:
    return Deliver(
        stream="s",
        epoch=1,
        generation=generation,
        chunk=part,
        lost=lost,
        arrived_us=arrived_us,
    )


def delivered(*deliveries: Deliver) -> Delivered:
    return Delivered.from_deliveries(deliveries, schema)


def test_nothing_delivered_nothing_wrong() -> None:
    assert sequence_faults(delivered()) == SequenceFaults(lost=0, repeated=0)


def test_unbroken_sequence_whatever_it_begins_with() -> None:
    one = delivered(deliver(chunk(7, [(10, 2)])), deliver(chunk(9, [(20, 0), (30, 1)])))
    assert sequence_faults(one) == SequenceFaults(lost=0, repeated=0)


def test_missing_and_repeated_tuples_are_told_apart() -> None:
    one = delivered(
        deliver(chunk(0, [(10, 3)])), deliver(chunk(2, [(20, 1)])), deliver(chunk(6, [(30, 1)]))
    )
    assert sequence_faults(one) == SequenceFaults(lost=3, repeated=1)


def test_what_the_sink_reports_lost_counts_even_if_no_tuple_came_after_it() -> None:
    one = delivered(deliver(chunk(0, [(10, 1)])), deliver(chunk(4, [(20, 0)]), lost=3))
    assert sequence_faults(one) == SequenceFaults(lost=3, repeated=0)


def test_tuples_that_a_sink_has_kept_twice_are_repeated(tmp_path: Path) -> None:
    assigned = SinkAssignment(stream="s", columns={"number": "int"}, deadline_ms=5.0)
    for numbers in (range(5), range(3, 8)):
        archive = Archive().open(assigned, tmp_path)
        for number in numbers:
            archive.keep(deliver(chunk(number, [(10 * number + 10, 1)])))
        archive.flush()
        archive.close()
    held = Archive().read_back("s", tmp_path)
    assert sequence_faults(held) == SequenceFaults(lost=0, repeated=2)
    assert differences(kept(*range(8)), held) == Differences(lost=0, repeated=2, differing=0)
    # What was kept twice before the observer came is no fault of what it has observed.
    later = kept(*range(6, 8), first_ms=70)
    assert differences(later, held) == Differences(lost=0, repeated=0, differing=0)


def test_numbers_that_began_anew_are_compared_within_their_generation() -> None:
    one = delivered(
        deliver(chunk(0, [(10, 3)])),
        deliver(chunk(1, [(20, 2)]), generation=4),
        deliver(chunk(5, [(30, 1)]), generation=4),
    )
    assert sequence_faults(one) == SequenceFaults(lost=2, repeated=0)


def test_timestamps_that_were_complete_in_an_earlier_generation_are_repeated() -> None:
    one = delivered(
        deliver(chunk(0, [(10, 1), (20, 2)])), deliver(chunk(0, [(20, 2), (30, 1)]), generation=2)
    )
    assert sequence_faults(one) == SequenceFaults(lost=0, repeated=2)


def test_losses_of_one_generation_do_not_hide_those_of_another() -> None:
    one = delivered(
        deliver(chunk(0, [(10, 1)])),
        deliver(chunk(4, [(20, 0)]), lost=3),
        deliver(chunk(0, [(30, 1)]), generation=2),
        deliver(chunk(3, [(40, 1)]), generation=2, lost=2),
    )
    assert sequence_faults(one) == SequenceFaults(lost=5, repeated=0)


def test_latency_of_each_completed_timestamp() -> None:
    one = delivered(deliver(chunk(0, [(10, 1), (20, 0)]), arrived_us=25_000))
    assert one.latencies_ms.tolist() == [15.0, 5.0]


def test_latency_of_each_tuple_is_that_of_the_timestamp_it_came_with() -> None:
    one = delivered(
        deliver(chunk(0, [(10, 2), (20, 0)]), arrived_us=25_000),
        deliver(chunk(2, [(30, 1)]), arrived_us=31_000),
    )
    assert one.row_latencies_ms.tolist() == [15.0, 15.0, 1.0]
    assert delivered().row_latencies_ms.tolist() == []
    assert delivered(deliver(chunk(0, [(10, 0)]))).row_latencies_ms.tolist() == []


def test_tuples_between_watermarks_came_with_the_next_one() -> None:
    part = chunk(0, [(10, 1), (15, 2), (20, 1)])
    closed = np.array([10, 20], dtype=np.int64)
    sparse = Chunk(
        first_seq=0, rows=part.rows, watermarks_ms=closed, ingestion_times_us=closed * 1000
    )
    one = delivered(deliver(sparse, arrived_us=22_000))
    assert one.row_latencies_ms.tolist() == [12.0, 2.0, 2.0, 2.0]


def test_an_archive_says_the_same_as_an_observer(tmp_path: Path) -> None:
    deliveries = [deliver(chunk(0, [(10, 2)])), deliver(chunk(2, [(20, 1)]), arrived_us=5)]
    columns = {"number": "int"}
    assigned = SinkAssignment(stream="s", columns=columns, deadline_ms=5.0)
    archive = Archive().open(assigned, tmp_path)
    for each in deliveries:
        archive.keep(each)
    archive.flush()
    archive.close()
    kept, seen = Archive().read_back("s", tmp_path), delivered(*deliveries)
    assert kept.rows.equals(seen.rows)
    assert kept.completed_timestamps.equals(seen.completed_timestamps)


@pytest.mark.parametrize(
    ("begin_us", "end_us", "expected"),
    [
        (0, 10_000, LongestSilence(gap_ms=5.0, ended_us=9000)),
        (0, 3500, LongestSilence(gap_ms=2.0, ended_us=4000)),
        (4500, 4600, LongestSilence(gap_ms=5.0, ended_us=9000)),
        (4000, 4000, LongestSilence(gap_ms=2.0, ended_us=4000)),
        (9500, 9600, LongestSilence(gap_ms=1.0, ended_us=10_000)),
    ],
)
def test_longest_silence_that_touches_a_time(
    begin_us: int, end_us: int, expected: LongestSilence
) -> None:
    arrived_us = np.array([1000, 2000, 4000, 9000, 10_000])
    found = longest_silence(arrived_us, begin_us, end_us)
    if begin_us == end_us:
        assert found in (expected, None)
    else:
        assert found == expected


def test_no_silence_without_two_arrivals() -> None:
    assert longest_silence(np.array([], dtype=np.int64), 0, 10) is None
    assert longest_silence(np.array([5]), 0, 10) is None


def kept(*numbers: int, first_ms: int = 10) -> Delivered:
    """One tuple of the value of its number at each timestamp; the numbers may jump or repeat."""
    deliveries: list[Deliver] = []
    for at, number in enumerate(numbers):
        one = chunk(number, [(first_ms + 10 * at, 1)])
        deliveries.append(Deliver(stream="s", epoch=1, chunk=one, lost=0, arrived_us=at))
    return Delivered.from_deliveries(deliveries, schema)


def test_deliveries_that_agree_do_not_differ() -> None:
    none = Differences(lost=0, repeated=0, differing=0)
    assert differences(kept(0, 1, 2, 3), kept(0, 1, 2, 3)) == none
    # The observer came later, and the archive has gone on.
    assert differences(kept(1, 2, first_ms=20), kept(0, 1, 2, 3)) == none
    assert differences(kept(), kept(0)) == none


def test_a_tuple_that_only_one_delivery_has_is_lost() -> None:
    assert differences(kept(0, 1, 2, 3), kept(0, 1, 3, 4)).lost == 2


def test_content_is_compared_not_only_numbers() -> None:
    observed = kept(0, 1, 2)
    rows: list[dict[str, int]] = observed.rows.to_pylist()
    rows[1]["number"] = 7
    changed = pa.Table.from_pylist(rows, schema=observed.rows.schema)
    found = differences(observed, replace(observed, rows=changed))
    assert found == Differences(lost=0, repeated=0, differing=1)


def test_a_disturbance_is_measured_by_the_longest_silence_until_all_is_as_it_was() -> None:
    blast = Blast(bound_ms=300.0)
    struck = Disturbed(struck_us=0, over_us=400_000, restored_us=1_000_000)
    arrived_us = [*range(-50_000, 200_001, 50_000), *range(650_000, 1_500_000, 50_000)]
    deliveries = [
        Deliver(stream="s", epoch=1, chunk=chunk(0, [(n, 0)]), lost=0, arrived_us=us)
        for n, us in enumerate(arrived_us)
    ]
    delivered = [Delivered.from_deliveries(deliveries, schema)]
    found = disturbance(struck, blast, delivered)
    assert (found.recovery_ms, found.bound_ms) == (450.0, 300.0)
    assert found.resumed_us == 650_000
    assert len(found.failures) == 1
    away = disturbance(replace(struck, ended_sources=True), blast, delivered)
    assert (away.bound_ms, away.failures) == (700.0, ())


def test_a_kill_is_measured_at_the_output_that_resumed_last() -> None:
    killed = Killed(
        target=Target(node="n", hosts={"n": "i"}, fragments=(), bound_ms=300.0),
        killed_us=100_000,
        detected_us=160_000,
        causes=(),
        restored_us=900_000,
    )
    early, late = (
        delivered(*(deliver(chunk(n, [(n, 0)]), arrived_us=us) for n, us in enumerate(arrived_us)))
        for arrived_us in ([0, 90_000, 200_000, 250_000], [0, 80_000, 340_000, 390_000])
    )
    for each in ([early, late], [late, early]):
        found = outage(killed, each)
        assert (found.recovery_ms, found.gap_ms, found.resumed_us) == (240.0, 260.0, 340_000)


def test_of_several_faults_the_one_that_came_nearest_to_its_bound_counts() -> None:
    arrivals = [0, 100, 350, 450, 550, 2550, 2600, 2700]
    one = delivered(*(deliver(chunk(n, [(n, 0)]), arrived_us=1000 * a)
                      for n, a in enumerate(arrivals)))  # fmt: skip
    quick = Disturbed(struck_us=50_000, over_us=60_000, restored_us=400_000)
    site = Disturbed(
        struck_us=500_000, over_us=2_500_000, restored_us=2_650_000, ended_sources=True
    )
    whole = Disturbed(struck_us=50_000, over_us=2_500_000, restored_us=2_650_000)
    blast = Blast(bound_ms=300.0)
    found = disturbance(replace(whole, steps=(quick, site)), blast, [one])
    assert (found.recovery_ms, found.bound_ms, found.gap_ms) == (250.0, 300.0, 2000.0)
    assert not found.failures
    assert disturbance(whole, blast, [one]).failures
