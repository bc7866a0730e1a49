"""Linear Road: what the example's query gives is what a few lines of Python compute."""

from __future__ import annotations

import io
import sys
from collections import defaultdict, deque
from collections.abc import Iterator
from itertools import groupby, pairwise
from pathlib import Path
from statistics import fmean

import pyarrow as pa
import pytest
from pyarrow import parquet

from examples.linear_road_traffic import EXIT_LANE, REPORT_S, SEGMENT_FT, reports
from orchestrator.api.trying import AskedTry, try_query

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "linear-road"

MINUTE_MS = 60_000

Report = dict[str, int]
Segment = tuple[int, int, int]
"""Expressway, direction, number."""


def segment_of(report: Report) -> Segment:
    return report["xway"], report["dir"], report["segment"]


def ahead(of: Segment, by: int) -> Segment:
    return of[0], of[1], of[2] + (by if of[1] == 0 else -by)


class Road:
    """Each car's newest four reports, and the accidents that they tell of."""

    def __init__(self) -> None:
        self.newest: defaultdict[int, deque[Report]] = defaultdict(lambda: deque(maxlen=4))

    def accidents(self, now_ms: int) -> set[Segment]:
        standing: defaultdict[tuple[Segment, int, int], int] = defaultdict(int)
        for told in self.newest.values():
            if told[0]["position"] != told[-1]["position"]:
                continue
            places = {(segment_of(each), each["lane"], each["position"]) for each in told}
            is_fresh = told[0]["timestamp"] > now_ms - 2 * MINUTE_MS
            if len(told) == 4 and len(places) == 1 and is_fresh:
                standing[places.pop()] += 1
        return {place[0] for place, cars in standing.items() if cars >= 2}


def speeds_and_cars(minute: list[Report]) -> dict[Segment, tuple[float, int]]:
    """The mean of the cars' mean speeds in each segment, and how many cars."""
    by_car: defaultdict[tuple[Segment, int], list[int]] = defaultdict(list)
    for each in minute:
        by_car[segment_of(each), each["car"]].append(each["speed"])
    by_segment: defaultdict[Segment, list[float]] = defaultdict(list)
    for (segment, _), speeds in by_car.items():
        by_segment[segment].append(fmean(speeds))
    return {segment: (fmean(means), len(means)) for segment, means in by_segment.items()}


def charges_and_alerts(table: list[Report]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """All of it, report by report."""
    road, entered = Road(), dict[int, Segment | None]()
    minutes: deque[dict[Segment, tuple[float, int]]] = deque(maxlen=5)
    minute, tolls = list[Report](), dict[Segment, int]()
    boundary_ms = table[0]["timestamp"] // MINUTE_MS * MINUTE_MS + MINUTE_MS
    for now_ms, group in groupby(table, key=lambda each: each["timestamp"]):
        while now_ms > boundary_ms:
            minutes.append(speeds_and_cars(minute))
            stuck = road.accidents(boundary_ms)
            tolls = {
                segment: 2 * (cars - 50) ** 2
                for segment, (_, cars) in minutes[-1].items()
                if cars > 50
                and fmean(each[segment][0] for each in minutes if segment in each) < 40
                and not any(ahead(segment, by) in stuck for by in range(5))
            }
            minute = []
            boundary_ms += MINUTE_MS
        for each in (now := list(group)):
            road.newest[each["car"]].append(each)
        minute += now
        stuck = road.accidents(now_ms)
        for each in now:
            car, segment = each["car"], None if each["lane"] == EXIT_LANE else segment_of(each)
            if segment is not None and segment != entered.get(car):
                if segment in tolls:
                    yield "charges", (now_ms, car, *segment, tolls[segment])
                for found in (ahead(segment, by) for by in range(5)):
                    if found in stuck:
                        yield "alerts", (now_ms, car, *segment, found[2])
            entered[car] = segment


def test_reports_come_in_order_and_every_half_minute() -> None:
    made = reports(seed=3, minutes=5).to_pylist()
    times_ms = [each["timestamp"] for each in made]
    assert times_ms == sorted(times_ms)
    by_car: defaultdict[int, list[Report]] = defaultdict(list)
    for each in made:
        by_car[each["car"]].append(each)
        assert each["segment"] == each["position"] // SEGMENT_FT
    for told in by_car.values():
        assert {later["timestamp"] - each["timestamp"] for each, later in pairwise(told)} <= {
            1000 * REPORT_S
        }


def test_a_seed_makes_the_same_reports_again() -> None:
    assert reports(seed=3, minutes=2).equals(reports(seed=3, minutes=2))
    assert not reports(seed=3, minutes=2).equals(reports(seed=4, minutes=2))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_the_query_charges_and_alerts_whom_it_should(tmp_path: Path, seed: int) -> None:
    table = reports(seed=seed)
    parquet.write_table(table, tmp_path / "reports.parquet")
    outputs = ("charges", "alerts")
    try_query(
        AskedTry(
            query="traffic",
            files=[EXAMPLE],
            inputs=[f"reports={tmp_path / 'reports.parquet'}"],
            outputs=[f"{output}={tmp_path / output}.parquet" for output in outputs],
        ),
        sys.stdin.buffer,
        io.BytesIO(),
    )
    expected: defaultdict[str, list[tuple[int, ...]]] = defaultdict(list)
    for output, row in charges_and_alerts(table.to_pylist()):
        expected[output].append(row)
    for output in outputs:
        rows = parquet.read_table(tmp_path / f"{output}.parquet")
        found = list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
        assert rows.schema.types == [pa.int64()] * 6
        assert sorted(found) == sorted(expected[output])
        assert len(found) > 100
