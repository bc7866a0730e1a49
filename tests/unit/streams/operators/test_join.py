"""Joins of two and more relations."""

from __future__ import annotations

import numpy as np
import pytest

from streams.operators import join, join_index
from streams.vectors.vector import Rows
from tests.unit.streams.running import output, program, run


def test_a_row_joins_what_came_before_and_what_comes_after() -> None:
    s = [(1, "a", 1, None, None), (5, "b", 2, None, None)]
    t = [(3, "a", 10, None, None), (5, "b", 20, None, None)]
    query = "(SELECT s.i AS i, t.i AS j FROM s [RANGE 4 MILLISECONDS], t [ROWS 1] WHERE s.k = t.k)"
    assert run("ISTREAM" + query, s, t) == [(3, 1, 10), (5, 2, 20)]
    assert run("DSTREAM" + query, s, t) == [(5, 1, 10)]


def test_null_joins_nothing() -> None:
    s = [(1, None, 1, None, None)]
    assert run("ISTREAM(SELECT s.i AS i FROM s [ROWS 1], t [ROWS 1] WHERE s.k = t.k)", s, s) == []


def test_null_joins_nothing_by_index_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even what stands in its place."""
    monkeypatch.setattr(join_index, "SORTED_FROM_ROWS", 0)
    monkeypatch.setattr(join_index, "SORTED_FROM_PAIRS", 0)
    null, zero = (1, "a", None, None, None), (1, "b", 0, None, None)
    query = "ISTREAM(SELECT s.k AS k FROM s [ROWS 9], t [ROWS 9] WHERE s.i = t.i)"
    assert run(query, [null, zero], [zero]) == [(1, "b")]
    assert run(query, [zero], [null, zero]) == [(1, "b")]


def test_an_equality_of_integers_of_any_size_goes_by_index(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = [(1, "a", number, None, None) for number in (-(2**63), 2**63 - 1, 2**62, 0)]
    query = "ISTREAM(SELECT s.i AS i FROM s [ROWS 9], t [ROWS 9] WHERE s.i = t.i)"
    compared = run(query, ends, ends)
    monkeypatch.setattr(join_index, "SORTED_FROM_ROWS", 0)
    monkeypatch.setattr(join_index, "SORTED_FROM_PAIRS", 0)
    found: list[object] = []
    candidates = join_index.Band.candidates

    def spied(index: join_index.Band, left: Rows, right: Rows) -> object:
        found.append(candidates(index, left, right))
        return found[-1]

    monkeypatch.setattr(join_index.Band, "candidates", spied)
    assert sorted(run(query, ends, ends)) == sorted(compared)
    assert len(compared) == len(ends)
    assert found
    assert None not in found


def test_without_conditions_everything_joins() -> None:
    s = [(1, "a", 1, None, None), (1, "b", 2, None, None)]
    query = "RSTREAM(SELECT s.i AS i, t.k AS k FROM s [NOW], t [NOW])"
    assert run(query, s, s) == [(1, 1, "a"), (1, 2, "a"), (1, 1, "b"), (1, 2, "b")]


def test_three_sources() -> None:
    s = [(n, "a", n, None, None) for n in range(1, 4)]
    query = (
        "RSTREAM(SELECT a.i AS i, b.i AS j, c.i AS k FROM s [ROWS 3] AS a, s [ROWS 3] AS b, "
        "s [NOW] AS c WHERE a.i < b.i AND b.i < c.i)"
    )
    assert run(query, s) == [(3, 1, 2, 3)]


def test_blocks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    tuples = [(n // 5, str(n % 3), n, n / 2, True) for n in range(40)]
    query = (
        "ISTREAM(SELECT a.i AS i, b.i AS j FROM s [ROWS 20] AS a, t [ROWS 20] AS b "
        "WHERE a.k = b.k AND abs(a.x - b.x) < 3)"
    )
    whole = run(query, tuples, tuples)
    monkeypatch.setattr(join, "LARGEST_BLOCK", 50)
    assert run(query, tuples, tuples) == whole
    assert len(whole) > 50


def test_proximity_of_aircraft_against_brute_force() -> None:
    compiled = program(
        "ISTREAM(SELECT a.icao24 AS first, b.icao24 AS second FROM "
        "tracks [PARTITION BY icao24 ROWS 1 RANGE 30 SECONDS] AS a, "
        "tracks [PARTITION BY icao24 ROWS 1 RANGE 30 SECONDS] AS b "
        "WHERE a.icao24 < b.icao24 AND abs(a.row - b.row) <= 1 AND abs(a.col - b.col) <= 1 "
        "AND power(60 * (a.latitude - b.latitude), 2) + power(60 * cos(radians(a.latitude)) * "
        "(a.longitude - b.longitude), 2) < 25 AND abs(a.altitude - b.altitude) < 1000)",
        {
            "tracks": {
                "icao24": "string",
                "latitude": "float",
                "longitude": "float",
                "altitude": "float",
                "row": "int",
                "col": "int",
            }
        },
    )
    rng = np.random.default_rng(5)
    tuples: list[tuple[int, str, float, float, float, int, int]] = []
    for second in range(40):
        for aircraft in rng.permutation(12)[:6]:
            latitude, longitude = 48.5 + rng.uniform(0, 0.2), 2.2 + rng.uniform(0, 0.3)
            altitude = float(rng.integers(1500, 4000))
            cell = int(np.floor(latitude * 12)), int(np.floor(longitude * 8))
            name = f"a{aircraft:02d}"
            tuples.append((second * 1000, name, latitude, longitude, altitude, *cell))

    expected: list[tuple[int, str, str]] = []
    near_before: set[tuple[str, str]] = set()
    for second in range(40):
        newest = {one[1]: one for one in tuples if (second - 30) * 1000 < one[0] <= second * 1000}
        near = {
            (a, b)
            for a, (_, _, lat, lon, alt, *_) in newest.items()
            for b, (_, _, lat2, lon2, alt2, *_) in newest.items()
            if a < b
            and abs(alt - alt2) < 1000
            and (60 * (lat - lat2)) ** 2 + (60 * np.cos(np.radians(lat)) * (lon - lon2)) ** 2 < 25
        }
        expected += [(second * 1000, *pair) for pair in near - near_before]
        near_before = near
    assert len(expected) > 20
    assert sorted(output(compiled, {"tracks": tuples})) == sorted(expected)
