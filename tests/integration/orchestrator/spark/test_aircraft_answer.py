"""The aircraft example: its SQL, its continuous query and brute force give one answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pyspark.sql import SparkSession

from examples import fetch
from orchestrator.spark.verify.verification import verify
from streams.evaluate.engine import FragmentEngine
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.vectors.chunk import TIMESTAMP, Chunk, stream_schema
from tests.aircraft_answer import brute_force

pytestmark = pytest.mark.spark

AIRCRAFT = fetch.EXAMPLES / "aircraft"
ANSWER = (AIRCRAFT / "answer.sql").read_text()
OUTPUTS: tuple[str, ...] = ("alerts", "alerts_per_minute")


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


def manifests(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((AIRCRAFT / name).read_text()))


def as_chunks(rows: pa.Table, columns: Mapping[str, str], timestamp_groups: int) -> list[Chunk]:
    """A stream cut after every so many timestamps."""
    renamed = rows.select(["timestamp", *columns]).rename_columns([TIMESTAMP, *columns])
    (batch,) = renamed.cast(stream_schema(columns)).combine_chunks().to_batches()
    times = batch.column(0).to_numpy()
    closed = np.unique(times)
    chunks: list[Chunk] = []
    for start in range(0, len(closed), timestamp_groups):
        watermarks_ms = closed[start : start + timestamp_groups]
        low, high = np.searchsorted(times, [watermarks_ms[0], watermarks_ms[-1] + 1]).tolist()
        part = batch.slice(low, high - low)
        chunks.append(
            Chunk(
                first_seq=low,
                rows=part,
                watermarks_ms=watermarks_ms,
                ingestion_times_us=watermarks_ms * 1000,
            )
        )
    return chunks


def evaluate(engine: FragmentEngine, inputs: Mapping[str, Sequence[Chunk]]) -> list[Chunk]:
    """A fragment's output; chunks are offered in the order in which they are complete."""
    ready = sorted(
        (chunk.watermark_ms, chunk.first_seq, stream)
        for stream, chunks in inputs.items()
        for chunk in chunks
    )
    waiting = {stream: iter(chunks) for stream, chunks in inputs.items()}
    made: list[Chunk] = []
    next_seq = 0
    for _, _, stream in ready:
        engine.offer(stream, next(waiting[stream]))
        while (done := engine.advance(1000)) is not None:
            chunk = Chunk(
                first_seq=next_seq,
                rows=done.rows,
                watermarks_ms=done.watermarks_ms,
                ingestion_times_us=done.ingestion_times_us,
            )
            made.append(chunk)
            next_seq = chunk.next_seq
    return made


def continuous(positions: pa.Table, timestamp_groups: int) -> dict[str, pa.Table]:
    """What the example's fragments give, one after the other."""
    columns: dict[str, dict[str, str]] = {
        manifest["name"]: manifest["columns"] for manifest in manifests("streams.yaml")
    }
    streams = {
        site: as_chunks(rows, columns[site], timestamp_groups)
        for site, rows in fetch.split(positions).items()
    }
    (query,) = manifests("query.yaml")
    for statement in parse(cast("str", query["statements"])):
        program = compile_statement(statement, columns)
        columns[program.name] = dict(program.columns)
        inputs = {stream: streams[stream] for stream in program.inputs}
        streams[program.name] = evaluate(FragmentEngine(program), inputs)
    return {
        output: pa.Table.from_batches([chunk.rows for chunk in streams[output]])
        for output in OUTPUTS
    }


def by_brute_force(positions: pa.Table) -> dict[str, pa.Table]:
    alerts, counts = brute_force(positions)
    text, number = pa.string(), pa.int64()
    return {
        "alerts": table_of(alerts, {"_ts": number, "first": text, "second": text}),
        "alerts_per_minute": table_of(counts, {"_ts": number, "alerts": number}),
    }


def table_of(rows: Sequence[tuple[object, ...]], columns: dict[str, pa.DataType]) -> pa.Table:
    named = [dict(zip(columns, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(named, schema=pa.schema(list(columns.items())))


def assert_one_answer(session: SparkSession, positions: pa.Table, folder: Path, least: int) -> None:
    expected = by_brute_force(positions)
    assert expected["alerts"].num_rows >= least
    checks = verify(session, ANSWER, write_sites(positions, folder), expected)
    assert all(check.equal for check in checks), checks
    # Counts fall once more after the recording, which no watermark covers any longer.
    last_ms = max(positions["timestamp"].to_pylist())
    for output, delivered in continuous(positions, timestamp_groups=7).items():
        due = [row for row in expected[output].to_pylist() if row[TIMESTAMP] <= last_ms]
        assert in_order(delivered.to_pylist()) == in_order(due)


def in_order(rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in rows)


def test_one_answer_on_made_up_flights(session: SparkSession, tmp_path: Path) -> None:
    positions = flights(np.random.default_rng(1), aircraft=24, seconds=600)
    assert_one_answer(session, positions, tmp_path, least=20)


def test_one_answer_on_twenty_minutes_of_the_recording(
    session: SparkSession, tmp_path: Path
) -> None:
    paths = [fetch.DATA / f"aircraft-{site}.parquet" for site in fetch.SITES]
    if not all(path.exists() for path in paths):
        pytest.skip("the recording is not fetched; `make data` fetches it")
    table = pa.concat_tables([pq.read_table(path) for path in paths])
    table = table.sort_by([("timestamp", "ascending")])
    times = table["timestamp"].to_numpy()
    twenty_minutes = table.filter(pa.array(times < times.min() + 20 * 60_000))
    assert_one_answer(session, twenty_minutes, tmp_path, least=5)
