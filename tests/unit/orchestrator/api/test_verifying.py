"""What is verified is read again from where it came from."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from orchestrator import api
from orchestrator.api.verifying import (
    EvaluatedAgain,
    OutputVerdict,
    Unverifiable,
    VerifyDocument,
    _span,  # pyright: ignore[reportPrivateUsage]
    _whole_from,  # pyright: ignore[reportPrivateUsage]
    read_input,
)
from orchestrator.cli.verify import _view  # pyright: ignore[reportPrivateUsage]
from orchestrator.control.view import ClusterView
from orchestrator.deploy.context import ClusterContext
from orchestrator.manifest import Manifests
from orchestrator.records import Shed, StreamRecord
from orchestrator.sinks.delivered import Delivered
from orchestrator.sources import spec_of
from orchestrator.sources.ingestion import Ingestion, Push
from orchestrator.sources.journal import Journal
from orchestrator.sources.live import Durable
from orchestrator.sources.orderer import EventTime
from orchestrator.sources.replay import Replay
from orchestrator.sources.tcp import Tcp
from streams.chunk import stream_schema
from tests.obedient_cluster import ObedientCluster, aircraft, query_manifest

SCHEMA = stream_schema({"number": "int"})
STREAM = StreamRecord(name="s", site="here", columns={"number": "int"}, rate_bytes_s=1000.0)


def test_a_recording_is_read_round_after_round(tmp_path: Path) -> None:
    file = tmp_path / "s.parquet"
    table = pa.Table.from_pydict({"timestamp": [1000, 2000, 2500], "number": [1, 2, 3]})
    parquet.write_table(table, file)
    replay = Replay(path=str(file), begin_ms=1000, end_ms=3000, interval_ms=1000, repeat=True)
    stream = msgspec.structs.replace(STREAM, source=spec_of("replay", replay))
    read = read_input(stream, tmp_path, 5000)
    assert read.begin_ms == 1000
    assert read.rows["_ts"].to_pylist() == [1000, 2000, 2500, 4000, 5000]
    assert read.rows["number"].to_pylist() == [1, 2, 3, 1, 2]


def journaled(folder: Path, *stamps: int) -> StreamRecord:
    """A live stream whose journal another process has open."""
    journal = Journal(folder / "journal" / "s" / "1", SCHEMA, retain_bytes=2**20, sync=False)
    time = EventTime(by_arrival=False, max_ahead_ms=None)
    rows = pa.RecordBatch.from_pydict({"_ts": stamps, "number": stamps}, schema=SCHEMA)
    Ingestion(SCHEMA, time, journal).take([Push(rows, 0)], 0)
    return msgspec.structs.replace(STREAM, source=spec_of("tcp", Tcp(durable=Durable.PROCESS)))


def test_a_live_stream_is_read_from_its_journal_while_its_site_writes_it(tmp_path: Path) -> None:
    (tmp_path / "journal" / "s").mkdir(parents=True)
    stream = journaled(tmp_path, 1000, 3000, 2000, 4000)
    assert read_input(stream, tmp_path, 2500).rows.to_pydict()["number"] == [1000, 2000]
    before = sorted(each.name for each in (tmp_path / "journal" / "s" / "1").iterdir())
    assert read_input(stream, tmp_path, 3999).rows.num_rows == 3
    assert sorted(each.name for each in (tmp_path / "journal" / "s" / "1").iterdir()) == before
    with pytest.raises(Unverifiable, match="does not go as far"):
        read_input(stream, tmp_path, 4000)


def test_what_is_kept_nowhere_is_refused_with_the_reason(tmp_path: Path) -> None:
    gone = msgspec.structs.replace(STREAM, source=spec_of("tcp", Tcp(durable=Durable.NOTHING)))
    with pytest.raises(Unverifiable, match=r"is not kept: it has `durable: no`$"):
        read_input(gone, tmp_path, 1)
    sent = msgspec.structs.replace(STREAM, source=spec_of("tcp", Tcp(durable=Durable.REPLICAS)))
    with pytest.raises(Unverifiable, match=r"is not kept: it has `durable: replicas`$"):
        read_input(sent, tmp_path, 1)
    shed = msgspec.structs.replace(gone, shed=Shed(tuples=1, per_ms=1.0))
    with pytest.raises(Unverifiable, match=r"is not kept: it has a load shedder \(`shed`\)$"):
        read_input(shed, tmp_path, 1)
    with pytest.raises(Unverifiable, match="nothing ever enters"):
        read_input(STREAM, tmp_path, 1)
    lost = msgspec.structs.replace(STREAM, source=spec_of("tcp", Tcp()))
    with pytest.raises(Unverifiable, match="there is no journal"):
        read_input(lost, tmp_path, 1)


def test_the_first_differences_are_shown() -> None:
    found = VerifyDocument(
        query="q",
        begin_ms=1000,
        until_ms=2500,
        inputs={"s": 1234},
        outputs=(
            OutputVerdict(
                output="right", archived=3, recomputed=3, missing=0, unexpected=0,
                first_missing=(), first_unexpected=(),
            ),
            OutputVerdict(
                output="wrong", archived=3, recomputed=4, missing=2, unexpected=1,
                first_missing=({"_ts": 1500, "k": "a"},),
                first_unexpected=({"_ts": 1600, "k": None},),
            ),
        ),
        not_in_sql={
            "right": EvaluatedAgain(why="sessions are not translated", by=("k",)),
            "wrong": EvaluatedAgain(why="TOP is not translated", whole="rows are ranked"),
        },
    )  # fmt: skip
    assert not found.equal
    lines = _view(found).plain.splitlines()
    assert lines[0] == "Query q, 1970-01-01 00:00:01.000 to 1970-01-01 00:00:02.500"
    assert "right was evaluated again in parts by k, not in SQL: sessions" in lines[2]
    assert "wrong was evaluated again in one piece (rows are ranked), not in SQL: TOP" in lines[3]
    assert lines[4] == "✓ right: 3 rows, equal row for row"
    assert lines[6].split() == ["missing", "1970-01-01", "00:00:01.500", "k", "a"]
    assert lines[7].split() == ["unexpected", "1970-01-01", "00:00:01.600", "k", "None"]


def test_times_are_read_with_their_zone() -> None:
    assert api.moment("--from", "1970-01-01T00:00:01Z") == 1000
    assert api.moment("--from", None) is None
    with pytest.raises(api.InvalidInput, match="time zone"):
        api.moment("--from", "1970-01-01T00:00:01")


def archived(*watermarks_ms: int) -> dict[str, Delivered]:
    """An output of which results were archived up to each of these."""
    completed = pa.Table.from_pydict({"watermark_ms": watermarks_ms})
    return {"o": Delivered(completed, pa.Table.from_pydict({}))}


@pytest.mark.parametrize(
    ("begin_ms", "until_ms", "option"),
    [(6000, None, "--from: '1970-01-01T00:00:06.000Z'"), (None, 6000, "--to"), (None, 500, "--to")],
)
def test_a_span_that_is_not_archived_is_refused_with_the_one_that_is(
    begin_ms: int | None, until_ms: int | None, option: str
) -> None:
    with pytest.raises(api.InvalidInput, match=option) as refused:
        _span(archived(1000, 5250), begin_ms, until_ms)
    remedy = "That is from 1970-01-01T00:00:01.000Z to 1970-01-01T00:00:05.250Z."
    assert refused.value.remedy == remedy
    assert _span(archived(1000, 5250), 1, 900).until_ms == 900


def test_what_is_wrong_with_the_command_is_said_before_archives_are_read(tmp_path: Path) -> None:
    reach = ClusterContext(cluster="c", pid=1, started_s=0.0, folder="nowhere")
    cluster = api.Cluster(reach, ObedientCluster().store)
    with pytest.raises(api.InvalidInput, match=r"--to: '1970-.*' is before --from 1970"):
        api.verify(cluster, "q", begin_ms=2000, until_ms=1999)
    with pytest.raises(api.InvalidInput, match=r"--sql: .* cannot be read \(No such file"):
        api.verify(cluster, "q", sql=tmp_path / "nope.sql")


WHOLE = """\
REGISTER QUERY near RSTREAM(SELECT id, x FROM north [NOW] WHERE x > 0);
REGISTER QUERY counted RSTREAM(
    SELECT id, count(*) AS n FROM near [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY id);
REGISTER QUERY alerts RSTREAM(
    SELECT c.id AS id, c.n AS n FROM counted [NOW] AS c, south [RANGE 3 SECONDS] AS s);
"""


def view_with(statements: str) -> ClusterView:
    cluster = ObedientCluster()
    query = query_manifest(statements=statements)
    cluster.apply(Manifests(cluster=None, streams=aircraft().streams, queries=(query,)))
    return cluster.view()


def test_a_query_that_joined_its_input_is_compared_where_windows_are_whole() -> None:
    view = view_with(WHOLE)
    # [NOW] is a millisecond, and what a relation was just before it counts.
    reach_ms = (1 + 1) + (10_000 + 2_000) + (3_000 + 1)
    assert _whole_from(view, "proximity", 1000, 60_000) == 1000 + reach_ms
    with pytest.raises(Unverifiable, match="which is not archived yet"):
        _whole_from(view, "proximity", 1000, 5000)


@pytest.mark.parametrize("window", ["ROWS 3", "UNBOUNDED", "SESSION 1 SECOND"])
def test_windows_without_bound_never_hold_all_that_they_would(window: str) -> None:
    view = view_with(f"REGISTER QUERY alerts RSTREAM(SELECT count(*) AS n FROM north [{window}]);")
    with pytest.raises(Unverifiable, match="windows of alerts may lack tuples"):
        _whole_from(view, "proximity", 1000, 60_000)
