"""The aircraft example's files fit each other, and its grid is wide enough."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml

from examples import fetch
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.vectors.chunk import stream_schema

AIRCRAFT = fetch.EXAMPLES / "aircraft"


def manifests(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((AIRCRAFT / name).read_text()))


def test_streams_have_the_recordings_columns() -> None:
    for stream in manifests("streams.yaml"):
        declared = stream_schema(stream["columns"])
        recorded = fetch.POSITION_SCHEMA
        assert declared.names[1:] == recorded.names[1:]
        assert [field.type for field in declared][1:] == [field.type for field in recorded][1:]


def test_statements_compile_and_outputs_estimates_and_sites_are_theirs() -> None:
    (query,) = manifests("query.yaml")
    (cluster,) = manifests("cluster.yaml")
    streams = manifests("streams.yaml")
    columns: dict[str, dict[str, str]] = {stream["name"]: stream["columns"] for stream in streams}
    statements = parse(query["statements"])
    for statement in statements:
        columns[statement.name] = dict(compile_statement(statement, columns).columns)
    names = {statement.name for statement in statements}
    assert set(query["estimates"]) == names
    assert set(query["outputs"]) <= names
    sites = {site["name"] for site in cluster["sites"]}
    assert {stream["site"] for stream in streams} | set(query["outputs"].values()) == sites
    assert columns["alerts"] == {"first": "string", "second": "string"}
    assert columns["alerts_per_minute"] == {"alerts": "int"}


def test_every_place_has_latencies() -> None:
    """Regions are named as in the recording's source; blanks would leave links undelayed."""
    path = fetch.DATA / "latency.csv"
    if not path.exists():
        pytest.skip("latencies are not fetched; `make data` fetches them")
    head, *rows = [line.split(",") for line in path.read_text().splitlines()]
    rtt_ms = {
        (row[0], to): cell for row in rows for to, cell in zip(head[1:], row[1:], strict=True)
    }
    (cluster,) = manifests("cluster.yaml")
    regions = {*cluster["nodes"], *(site["region"] for site in cluster["sites"])}
    pairs = [(a, b) for a in regions for b in regions if a != b]
    assert all(rtt_ms[pair] for pair in pairs)


def test_aircraft_within_five_nautical_miles_are_in_neighbouring_cells() -> None:
    rng = np.random.default_rng(5)
    count = 200_000
    latitude, longitude = rng.uniform([[44.0], [-3.0]], [[54.0], [9.0]], size=(2, count))
    bearing = rng.uniform(0, 2 * np.pi, count)
    # Mostly close to the limit, where a cell too narrow would show.
    distance_nm = 5 * (1 - rng.uniform(0, 1, count) ** 4 * 0.999) - 1e-9
    other_latitude = latitude + distance_nm * np.sin(bearing) / 60
    east = distance_nm * np.cos(bearing) / (60 * np.cos(np.radians(latitude)))
    other_longitude = longitude + east
    rows = np.floor(latitude * 12) - np.floor(other_latitude * 12)
    columns = np.floor(longitude * 7) - np.floor(other_longitude * 7)
    assert np.abs(rows).max() == 1
    assert np.abs(columns).max() == 1


def test_positions_schema_has_the_types_of_the_query_language() -> None:
    assert set(fetch.POSITION_SCHEMA.types) == {pa.int64(), pa.string(), pa.float64()}
