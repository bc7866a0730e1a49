"""A manifest that says something else than the stream or query that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.manifest import Manifests, QueryManifest, StreamManifest, load
from orchestrator.manifest.changes import RunsOtherwise, in_words, refuse_change

TEXT = """\
kind: Stream
name: north
site: receiver
columns: {z: string, a: float}
rate: 150 KB/s
burst: 7
shed: {tuples: 3, per: 20 ms, value: a}
from:
  replay:
    path: north.parquet
    begin: "2021-10-07T12:00:00Z"
    end: "2021-10-07T12:10:00Z"
    repeat: true
---
kind: Query
name: proximity
deadline: 300 ms
recovery: 0.5 s
outputs:
  alerts: {site: receiver, deadline: 100 ms}
  others: receiver
estimates: {alerts: {selectivity: 0.5, cost: 30 us}}
primaries: {alerts: [lyon, paris]}
statements: |
  REGISTER QUERY alerts RSTREAM(SELECT z FROM north [NOW]);
  REGISTER QUERY others RSTREAM(SELECT a FROM north [NOW]);
"""


def manifests(folder: Path, old: str = "", new: str = "") -> Manifests:
    assert old in TEXT
    (folder / "all.yaml").write_text(TEXT.replace(old, new, 1))
    return load([folder])


def refused(
    wanted: StreamManifest | QueryManifest, running: StreamManifest | QueryManifest
) -> RunsOtherwise:
    with pytest.raises(RunsOtherwise) as caught:
        refuse_change(wanted, running.record, "Delete it.")
    assert caught.value.remedy == "Delete it."
    return caught.value


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "running", "wanted"),
    [
        ("site: receiver", "site: centre", 3, "site", "receiver", "centre"),
        ("a: float", "a: int", 4, "columns.a", "float", "int"),
        ("150 KB/s", "0.2 MB/s", 5, "rate", "150 KB/s", "0.2 MB/s"),
        ("burst: 7\n", "", 1, "burst", "7", "not set"),
        ("per: 20 ms", "per: 1 s", 7, "shed.per", "20 ms", "1 s"),
        (", value: a", "", 7, "shed.value", "a", "not set"),
        (
            'begin: "2021-10-07T12:00:00Z"',
            'begin: "2021-10-07T12:00:01Z"',
            11,
            "from.replay.begin",
            "2021-10-07T12:00:00Z",
            "2021-10-07T12:00:01Z",
        ),
        ("repeat: true", "speed: 2.0", 13, "from.replay.speed", "1.0", "2.0"),
    ],
)
def test_stream(
    tmp_path: Path, old: str, new: str, line: int, field: str, running: str, wanted: str
) -> None:
    (before,) = manifests(tmp_path).streams
    (after,) = manifests(tmp_path, old, new).streams
    error = refused(after, before)
    assert error.file == f"{tmp_path}/all.yaml:{line}"
    assert (error.field, error.value, error.running) == (f"Stream north: {field}", wanted, running)


@pytest.mark.parametrize(
    ("old", "new", "line", "field", "running", "wanted"),
    [
        ("deadline: 300 ms", "deadline: 0.2 s", 17, "deadline", "300 ms", "0.2 s"),
        ("recovery: 0.5 s", "recovery: 400 ms", 18, "recovery", "500 ms", "400 ms"),
        (", deadline: 100 ms", "", 20, "outputs.alerts.deadline", "100 ms", "not set"),
        (
            ", deadline: 100 ms",
            ", deadline: 100 ms, overflow: drop",
            20,
            "outputs.alerts.overflow",
            "not set",
            "drop",
        ),
        ("others: receiver", "others: centre", 21, "outputs.others.site", "receiver", "centre"),
        ("0.5, cost", "0.25, cost", 22, "estimates.alerts.selectivity", "0.5", "0.25"),
        ("30 us", "0.1 ms", 22, "estimates.alerts.cost", "30 us", "0.1 ms"),
        ("[lyon, paris]", "[lyon]", 23, "primaries.alerts", "[lyon, paris]", "[lyon]"),
        (
            "SELECT a FROM",
            "SELECT z FROM",
            26,
            "statements",
            "REGISTER QUERY others RSTREAM(SELECT a FROM north [NOW]);",
            "REGISTER QUERY others RSTREAM(SELECT z FROM north [NOW]);",
        ),
    ],
)
def test_query(
    tmp_path: Path, old: str, new: str, line: int, field: str, running: str, wanted: str
) -> None:
    (before,) = manifests(tmp_path).queries
    (after,) = manifests(tmp_path, old, new).queries
    error = refused(after, before)
    assert error.file == f"{tmp_path}/all.yaml:{line}"
    assert error.field == f"Query proximity: {field}"
    assert (error.value, error.running) == (wanted, running)
    assert str(error).endswith(f"which is {running!r}. Delete it.")


def test_another_way_to_write_the_same_is_no_change(tmp_path: Path) -> None:
    before, after = manifests(tmp_path), manifests(tmp_path, "0.5 s", "500 ms")
    refuse_change(after.queries[0], before.queries[0].record, "")
    refuse_change(after.streams[0], before.streams[0].record, "")


def test_records_are_said_in_the_words_of_manifests(tmp_path: Path) -> None:
    found = manifests(tmp_path)
    words = in_words(found.queries[0].record)
    assert words["deadline"] == "300 ms"
    assert words["outputs.alerts.site"] == "receiver"
    assert "deadlines_ms" not in " ".join(words)
    words = in_words(found.streams[0].record)
    assert words["from.replay.path"] == str(tmp_path / "north.parquet")
    assert words["from.replay.interval"] == "1000 ms"
