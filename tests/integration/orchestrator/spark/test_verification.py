"""Recomputing answers on a real Spark, and the aircraft example's SQL against a third computation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from examples import fetch
from orchestrator.embedded.java import Java
from orchestrator.errors import InvalidInput
from orchestrator.spark.session import SessionSettings, start_session, stop_session
from orchestrator.spark.verification import OutputCheck, verify

pytestmark = pytest.mark.spark

ANSWER = (fetch.EXAMPLES / "aircraft" / "answer.sql").read_text()

DOUBLED = """
-- Everything twice as large; the `;` here ends nothing.
CREATE OR REPLACE TEMPORARY VIEW doubled AS
SELECT timestamp AS _ts, name, 2 * value AS value FROM readings;
"""


@pytest.fixture(scope="module")
def session(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark within one process: SQL needs no executors of its own."""
    started = start_session(
        SessionSettings(
            name="verification",
            work_dir=tmp_path_factory.mktemp("spark"),
            executors=1,
            master="local[2]",
            java=java,
            extra={"spark.sql.shuffle.partitions": "2"},
        )
    )
    yield started
    stop_session(started)


@pytest.fixture
def readings(tmp_path: Path) -> Path:
    path = tmp_path / "readings.parquet"
    rows = {
        "timestamp": [1, 2, 2, 3],
        "name": ["a", "b", "b", None],
        "value": [0.1, 1.0, 1.0, None],
    }
    pq.write_table(pa.Table.from_pydict(rows), path)
    return path


def doubled(*rows: tuple[int, str | None, float | None]) -> pa.Table:
    named = [dict(zip(("_ts", "name", "value"), row, strict=True)) for row in rows]
    schema = pa.schema([("_ts", pa.int64()), ("name", pa.string()), ("value", pa.float64())])
    return pa.Table.from_pylist(named, schema=schema)


def check(
    session: SparkSession, readings: Path, delivered: pa.Table, **options: int
) -> OutputCheck:
    verification = verify(
        session, DOUBLED, {"readings": readings}, {"doubled": delivered}, through_ms=options
    )
    (output,) = verification.outputs
    assert verification.equal == output.equal
    return output


def test_equal_as_multisets_whatever_the_order(session: SparkSession, readings: Path) -> None:
    delivered = doubled((3, None, None), (2, "b", 2.0), (1, "a", 0.2), (2, "b", 2.0))
    output = check(session, readings, delivered)
    assert output.equal
    assert (output.expected, output.delivered) == (4, 4)


def test_one_lost_one_altered_one_repeated(session: SparkSession, readings: Path) -> None:
    delivered = doubled((1, "a", 0.2), (1, "a", 0.2), (2, "b", 2.0), (3, None, 7.0))
    output = check(session, readings, delivered)
    assert not output.equal
    assert (output.missing, output.unexpected) == (2, 2)
    assert output.first_missing == (
        {"_ts": 2, "name": "b", "value": 2.0},
        {"_ts": 3, "name": None, "value": None},
    )
    assert output.first_unexpected == (
        {"_ts": 1, "name": "a", "value": 0.2},
        {"_ts": 3, "name": None, "value": 7.0},
    )


def test_rows_past_the_last_closed_instant_do_not_count(
    session: SparkSession, readings: Path
) -> None:
    assert check(session, readings, doubled((1, "a", 0.2), (9, "z", 0.0)), doubled=1).equal


def test_nothing_delivered_is_everything_missing(session: SparkSession, readings: Path) -> None:
    output = check(session, readings, doubled())
    assert (output.expected, output.delivered, output.missing) == (4, 0, 4)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT 1; SELEKT 2", "a statement fails: .*It is: SELEKT 2"),
        ("SELECT 1", "'doubled' is an output without a view"),
        (DOUBLED.replace("2 * value", "name"), "value string' has other columns"),
        (DOUBLED.replace("name,", ""), "The output has _ts bigint, name string, value double"),
    ],
)
def test_unusable_sql_is_refused(
    session: SparkSession, readings: Path, sql: str, message: str
) -> None:
    with pytest.raises(InvalidInput, match=f"(?s){message}"):
        verify(session, sql, {"readings": readings}, {"doubled": doubled()})


def test_views_do_not_outlive_a_verification(session: SparkSession, readings: Path) -> None:
    check(session, readings, doubled())
    assert not session.catalog.tableExists("doubled")
    assert not session.catalog.tableExists("readings")


Alerts = list[tuple[int, str, str]]
Counts = list[tuple[int, int]]


def brute_force(positions: pa.Table) -> tuple[Alerts, Counts]:
    """The example's answer, instant by instant, with nothing but dictionaries and sets."""
    rows = sorted(positions.to_pylist(), key=lambda row: row["timestamp"])
    flying = [row for row in rows if row["altitude"] is not None and row["altitude"] >= 1500]
    instants = {row["timestamp"] + delay for row in flying for delay in (0, 30_000)}
    alerts: Alerts = []
    newest: dict[str, dict[str, float]] = {}
    near: set[tuple[str, str]] = set()
    taken = 0
    for now in sorted(instants):
        while taken < len(flying) and flying[taken]["timestamp"] == now:
            newest[flying[taken]["icao24"]] = flying[taken]
            taken += 1
        held = {name: row for name, row in newest.items() if row["timestamp"] > now - 30_000}
        before, near = near, near_pairs(held)
        alerts += [(now, *pair) for pair in sorted(near - before)]
    return alerts, counts_by_minute(alerts, first_ms=rows[0]["timestamp"])


def near_pairs(held: dict[str, dict[str, float]]) -> set[tuple[str, str]]:
    names = sorted(held)
    if not names:
        return set()
    latitude, longitude, altitude = (
        np.array([held[name][axis] for name in names])
        for axis in ("latitude", "longitude", "altitude")
    )
    north = 60 * np.subtract.outer(latitude, latitude)
    east = 60 * np.cos(np.radians(latitude))[:, None] * np.subtract.outer(longitude, longitude)
    level = np.abs(np.subtract.outer(altitude, altitude)) < 1000
    is_near = (north**2 + east**2 < 25) & level
    return {
        (names[a], names[b]) for a, b in combinations(range(len(names)), 2) if bool(is_near[a, b])
    }


def counts_by_minute(alerts: Alerts, first_ms: int) -> Counts:
    steps = Counter({first_ms: 0})
    for at, _, _ in alerts:
        steps[at] += 1
        steps[at + 60_000] -= 1
    count, counts = 0, Counts()
    for at, step in sorted(steps.items()):
        count += step
        if step or at == first_ms:
            counts.append((at, count))
    return counts


def flights(rng: np.random.Generator, aircraft: int, seconds: int) -> pa.Table:
    """Positions of aircraft that wander about each other, with silences and lost altitudes."""
    rows: list[dict[str, object]] = []
    for number in range(aircraft):
        place = rng.uniform([48.6, 2.0, 1_000], [49.1, 2.6, 6_000])
        speed = rng.normal(0, [0.0008, 0.0012, 8])
        silent_until = 0
        for second in range(int(rng.integers(0, 60)), seconds):
            place = place + speed
            speed = speed + rng.normal(0, [0.00004, 0.00006, 1])
            if second < silent_until:
                continue
            if rng.random() < 0.01:
                silent_until = second + int(rng.integers(5, 60))
            latitude, longitude, altitude = place.tolist()
            row = {"icao24": f"{number:06x}", "latitude": latitude, "longitude": longitude}
            known = altitude if rng.random() > 0.1 else None
            rows.append({"timestamp": 1_000_000 + 1000 * second, "altitude": known, **row})
    table = pa.Table.from_pylist(rows, schema=fetch.POSITION_SCHEMA)
    return table.sort_by([("timestamp", "ascending")])


def write_sites(positions: pa.Table, folder: Path) -> dict[str, Path]:
    paths = {site: folder / f"{site}.parquet" for site in fetch.SITES}
    for site, rows in fetch.split(positions).items():
        pq.write_table(rows, paths[site])
    return paths


def table_of(rows: Sequence[tuple[object, ...]], columns: dict[str, pa.DataType]) -> pa.Table:
    named = [dict(zip(columns, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(named, schema=pa.schema(list(columns.items())))


def assert_answer(session: SparkSession, positions: pa.Table, folder: Path, least: int) -> None:
    alerts, counts = brute_force(positions)
    assert len(alerts) >= least
    text, number = pa.string(), pa.int64()
    delivered = {
        "alerts": table_of(alerts, {"_ts": number, "first": text, "second": text}),
        "alerts_per_minute": table_of(counts, {"_ts": number, "alerts": number}),
    }
    verification = verify(session, ANSWER, write_sites(positions, folder), delivered)
    assert verification.equal, verification


@pytest.mark.parametrize("seed", [1, 2])
def test_aircraft_answer_agrees_with_brute_force(
    session: SparkSession, tmp_path: Path, seed: int
) -> None:
    positions = flights(np.random.default_rng(seed), aircraft=24, seconds=600)
    assert_answer(session, positions, tmp_path, least=20)


def test_aircraft_answer_agrees_with_brute_force_on_the_recording(
    session: SparkSession, tmp_path: Path
) -> None:
    paths = [fetch.DATA / f"aircraft-{site}.parquet" for site in fetch.SITES]
    if not all(path.exists() for path in paths):
        pytest.skip("the recording is not fetched; `make data` fetches it")
    table = pa.concat_tables([pq.read_table(path) for path in paths])
    times = table["timestamp"].to_numpy()
    twenty_minutes = table.filter(pa.array(times < times.min() + 20 * 60_000))
    assert_answer(session, twenty_minutes, tmp_path, least=5)
