"""Continuous queries of the kind that the Stream Query Repository collects run, with right results.

The results are worked out in a few lines of Python, or by hand: none comes from the engine.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from streams.language import QueryError, parse
from streams.language.views import with_relations
from streams.plan.compiler import compile_statement
from tests.unit.streams.running import Columns, Row, output

STREAMS: dict[str, Columns] = {
    "PosSpeedStr": {
        "vehicleId": "int",
        "speed": "float",
        "xPos": "float",
        "dir": "int",
        "hwy": "int",
    },
    "SegSpeedStr": {
        "vehicleId": "int",
        "speed": "float",
        "segNo": "int",
        "dir": "int",
        "hwy": "int",
    },
    "VehicleSegEntryStr": {"vehicleId": "int", "segNo": "int", "dir": "int", "hwy": "int"},
    "OpenAuction": {"itemID": "int", "sellerID": "int", "startPrice": "float"},
    "ClosedAuction": {"itemID": "int", "buyerID": "int"},
    "Bid": {"itemID": "int", "price": "float", "bidderID": "int"},
    "C": {"src": "string", "dst": "string", "len": "int"},
    "B": {"src": "string", "dst": "string", "len": "int"},
}

segments: list[Row] = [
    (0, 1, 30.0, 5, 0, 1),
    (10_000, 2, 20.0, 5, 0, 1),
    (20_000, 1, 60.0, 6, 0, 1),
    (70_000, 3, 50.0, 5, 0, 1),
]
entries: list[Row] = [(0, 1, 5, 0, 1), (10_000, 2, 5, 0, 1), (50_000, 3, 6, 1, 1)]
bids: list[Row] = [
    (30_000, 1, 100.0, 7),
    (40_000, 2, 50.0, 8),
    (50_000, 1, 110.0, 9),
    (90_000, 2, 60.0, 7),
    (95_000, 2, 70.0, 7),
]
packets: list[Row] = [
    (1_000, "a", "x", 60),
    (2_000, "b", "y", 5),
    (30_000, "a", "x", 70),
    (61_500, "c", "x", 1),
]
others: list[Row] = [(1_500, "b", "a", 1), (3_000, "d", "c", 2)]


def run(query: str, until_ms: int | None = None, **inputs: list[Row]) -> list[Row]:
    """The rows of a query, in any order within a timestamp."""
    *_, statement = with_relations(parse(f"REGISTER QUERY q {query};"))
    return sorted(output(compile_statement(statement, STREAMS), inputs, until_ms), key=repr)


def ordered(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=repr)


def changes(
    relation: dict[int, Counter[tuple[Any, ...]]],
) -> list[Row]:
    """What ISTREAM gives of a relation that is known at all its timestamps."""
    found: list[Row] = []
    before = Counter[tuple[Any, ...]]()
    for at_ms, rows in sorted(relation.items()):
        found += [(at_ms, *row) for row in (rows - before).elements()]
        before = rows
    return ordered(found)


def held(rows: list[Row], span_ms: int, at_ms: int) -> list[Row]:
    """The tuples that a range holds."""
    return [row for row in rows if at_ms - span_ms < row[0] <= at_ms]


def times(span_ms: int, *inputs: list[Row]) -> list[int]:
    return sorted({row[0] + after for rows in inputs for row in rows for after in (0, span_ms)})


def test_segment_of_a_position() -> None:
    query = (
        "RSTREAM(SELECT vehicleId, speed, floor(xPos/1760) AS segNo, dir, hwy "
        "FROM PosSpeedStr [NOW])"
    )
    given: list[Row] = [(5, 1, 30.0, 3600.0, 0, 1), (6, 2, 10.0, 1759.9, 1, 1)]
    assert run(query, PosSpeedStr=given) == [(5, 1, 30.0, 2, 0, 1), (6, 2, 10.0, 0, 1, 1)]


def test_active_vehicles() -> None:
    query = (
        "ISTREAM(SELECT DISTINCT L.vehicleId, L.segNo, L.dir, L.hwy FROM "
        "SegSpeedStr [RANGE 30 SECONDS] AS A, SegSpeedStr [PARTITION BY vehicleId ROWS 1] AS L "
        "WHERE A.vehicleId = L.vehicleId)"
    )
    assert run(query, SegSpeedStr=segments) == [
        (0, 1, 5, 0, 1),
        (10_000, 2, 5, 0, 1),
        (20_000, 1, 6, 0, 1),
        (70_000, 3, 5, 0, 1),
    ]


def test_segment_entry() -> None:
    query = (
        "ISTREAM(SELECT DISTINCT vehicleId, segNo, dir, hwy "
        "FROM SegSpeedStr [PARTITION BY vehicleId ROWS 1])"
    )
    expected = [(0, 1, 5, 0, 1), (10_000, 2, 5, 0, 1), (20_000, 1, 6, 0, 1), (70_000, 3, 5, 0, 1)]
    assert run(query, SegSpeedStr=segments) == expected


def test_congested_segments() -> None:
    query = (
        "ISTREAM(SELECT segNo, dir, hwy FROM SegSpeedStr [RANGE 5 MINUTES] "
        "GROUP BY segNo, dir, hwy HAVING avg(speed) < 40)"
    )
    # Segment 5: 30, then 25, then 33.3 until the first tuples leave; at 310 s only 50 is left.
    assert run(query, 400_000, SegSpeedStr=segments) == [(0, 5, 0, 1)]


def test_vehicles_in_a_segment() -> None:
    query = (
        "ISTREAM(SELECT segNo, dir, hwy, count(vehicleId) AS numVehicles "
        "FROM VehicleSegEntryStr [RANGE 30 SECONDS] GROUP BY segNo, dir, hwy)"
    )
    relation = {
        at_ms: Counter(
            (*key, n) for key, n in Counter(row[2:] for row in held(entries, 30_000, at_ms)).items()
        )
        for at_ms in times(30_000, entries)
    }
    assert run(query, 90_000, VehicleSegEntryStr=entries) == changes(relation)


def test_currency() -> None:
    query = "RSTREAM(SELECT itemID, price*0.89 AS price FROM Bid [NOW])"
    assert run(query, Bid=bids) == ordered([(at, item, p * 0.89) for at, item, p, _ in bids])


def test_hot_item() -> None:
    counted = "FROM Bid [RANGE 60 MINUTES SLIDE 1 MINUTE] GROUP BY itemID"
    query = f"RSTREAM(SELECT itemID {counted} HAVING count(*) >= ALL (SELECT count(*) {counted}))"
    expected: list[Row] = []
    for minute in range(1, 63):
        items = Counter(row[1] for row in held(bids, 3_600_000, minute * 60_000))
        most = max(items.values(), default=0)
        expected += [(minute * 60_000, item) for item, n in items.items() if n == most]
    assert len(set(expected)) > 60
    assert run(query, 62 * 60_000, Bid=bids) == ordered(expected)


def test_short_auctions() -> None:
    query = (
        "ISTREAM(SELECT ClosedAuction.itemID FROM ClosedAuction [NOW], "
        "OpenAuction [RANGE 5 HOURS] WHERE ClosedAuction.itemID = OpenAuction.itemID)"
    )
    hour = 3_600_000
    opened: list[Row] = [(0, 1, 9, 1.0), (hour, 2, 9, 1.0)]
    closed: list[Row] = [(5 * hour, 1, 3), (5 * hour + 1, 2, 4)]
    assert run(query, OpenAuction=opened, ClosedAuction=closed) == [(5 * hour + 1, 2)]


def test_average_of_all_bids() -> None:
    query = "ISTREAM(SELECT avg(price) AS p FROM Bid [UNBOUNDED])"
    prices = [row[2] for row in bids]
    means = [sum(prices[:count]) / count for count in range(1, 6)]
    assert run(query, Bid=bids) == ordered([(b[0], m) for b, m in zip(bids, means, strict=True)])


def test_sources_seen_on_the_other_link() -> None:
    query = (
        "ISTREAM(SELECT src FROM C [RANGE 1 MINUTE] "
        "WHERE src IN (SELECT dst FROM B [RANGE 1 MINUTE]))"
    )
    relation: dict[int, Counter[tuple[Any, ...]]] = {}
    for at_ms in times(60_000, packets, others):
        seen = {row[2] for row in held(others, 60_000, at_ms)}
        relation[at_ms] = Counter(
            (row[1],) for row in held(packets, 60_000, at_ms) if row[1] in seen
        )
    assert len(changes(relation)) == 3
    assert run(query, 200_000, C=packets, B=others) == changes(relation)


def test_heavy_sources() -> None:
    query = (
        "ISTREAM(SELECT src, l FROM (SELECT src, sum(len) AS l FROM C [RANGE 1 MINUTE] "
        "GROUP BY src) WHERE l > 100)"
    )
    assert run(query, 200_000, C=packets) == [(30_000, "a", 130)]


def test_sources_on_one_link_only() -> None:
    query = "ISTREAM(SELECT src FROM C [RANGE 1 MINUTE] EXCEPT SELECT src FROM B [RANGE 1 MINUTE])"
    relation: dict[int, Counter[tuple[Any, ...]]] = {}
    for at_ms in times(60_000, packets, others):
        left = {(row[1],) for row in held(packets, 60_000, at_ms)}
        relation[at_ms] = Counter(left - {(row[1],) for row in held(others, 60_000, at_ms)})
    assert run(query, 200_000, C=packets, B=others) == changes(relation)


def test_last_packet_as_a_relation() -> None:
    text = (
        "REGISTER QUERY last SELECT src FROM C [ROWS 1]; "
        "REGISTER QUERY q ISTREAM(SELECT src FROM last);"
    )
    relation, statement = with_relations(parse(text))
    assert relation.is_relation
    rows = output(compile_statement(statement, STREAMS), {"C": packets})
    assert rows == [(at, src) for at, src, *_ in packets]


def test_a_bare_stream_needs_a_window() -> None:
    (statement,) = parse("REGISTER QUERY q RSTREAM(SELECT src FROM C);")
    with pytest.raises(QueryError, match=r"C is a stream and needs a window, such as \[NOW\]"):
        compile_statement(statement, STREAMS)


def test_a_day() -> None:
    query = "DSTREAM(SELECT src FROM C [RANGE 1 DAY])"
    day = 86_400_000
    expected = ordered([(at + day, src) for at, src, *_ in packets])
    assert run(query, 2 * day, C=packets) == expected


def test_a_second() -> None:
    query = "ISTREAM(SELECT src FROM C [RANGE 1 SECOND])"
    assert run(query, C=packets) == ordered([(at, src) for at, src, *_ in packets])


def test_case() -> None:
    query = "RSTREAM(SELECT CASE WHEN len > 5 THEN 1 ELSE 0 END AS x FROM C [NOW])"
    assert run(query, C=packets) == [(1_000, 1), (2_000, 0), (30_000, 1), (61_500, 0)]


def test_a_relation_has_no_delay() -> None:
    with pytest.raises(QueryError, match="a delay stands after a stream"):
        parse("REGISTER QUERY q SELECT src FROM C [NOW] <NOW>;")
