"""What is verified is read again from where it came from."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from orchestrator import api
from orchestrator.api.verified_input import KeptInput, Unverifiable, kept_input
from orchestrator.api.verified_span import (
    AMPLE_TUPLES,
    LAST_MS,
    AskedSpan,
    ChosenSpan,
    VerifiedSpan,
    chosen_span,
    whole_from,
)
from orchestrator.cli.verify import _view  # pyright: ignore[reportPrivateUsage]
from orchestrator.control.observe.view import ClusterView
from orchestrator.deploy.context import ClusterContext
from orchestrator.edges.events import SourceEmitted
from orchestrator.edges.sources import spec_of
from orchestrator.edges.sources.live.ingestion import Ingestion, Push
from orchestrator.edges.sources.live.journal import Journal
from orchestrator.edges.sources.live.live_source import Durability
from orchestrator.edges.sources.live.orderer import EventTime
from orchestrator.edges.sources.replay import Replay
from orchestrator.edges.sources.tcp import Tcp
from orchestrator.manifest import Manifests
from orchestrator.records import OnError, Shed, StreamRecord
from orchestrator.results.verification import EvaluatedAgain, OutputVerdict, VerifyDocument
from streams.vectors.chunk import NO_WATERMARK, Position, stream_schema
from tests.obedient_cluster import ObedientCluster, aircraft, query_manifest

SCHEMA = stream_schema({"number": "int"})
STREAM = StreamRecord(name="s", site="here", columns={"number": "int"}, rate_bytes_s=1000.0)


def test_a_recording_is_read_round_after_round(tmp_path: Path) -> None:
    file = tmp_path / "s.parquet"
    table = pa.Table.from_pydict({"timestamp": [1000, 2000, 2500], "number": [1, 2, 3]})
    parquet.write_table(table, file)
    replay = Replay(path=str(file), begin_ms=1000, end_ms=3000, interval_ms=1000, repeat=True)
    stream = msgspec.structs.replace(STREAM, source=spec_of("replay", replay))
    kept = kept_input(stream, tmp_path)
    assert kept.begin_ms == 1000
    rows = kept.read(None, 5000)
    assert rows["_ts"].to_pylist() == [1000, 2000, 2500, 4000, 5000]
    assert rows["number"].to_pylist() == [1, 2, 3, 1, 2]
    told: list[int] = []
    assert kept.read(2001, 4000, told.append)["_ts"].to_pylist() == [2500, 4000]
    assert (told[-1], kept.tuples(2001, 4000), kept.tuples(None, 4000)) == (2, 2, 4)
    assert kept.read(-7, 999).num_rows == 0


def journaled(folder: Path, *stamps: int) -> StreamRecord:
    """A live stream whose journal another process has open."""
    journal = Journal(folder / "journal" / "s" / "1", SCHEMA, retain_bytes=2**20, sync=False)
    time = EventTime(by_arrival=False, max_ahead_ms=None)
    rows = pa.RecordBatch.from_pydict({"_ts": stamps, "number": stamps}, schema=SCHEMA)
    Ingestion(SCHEMA, time, journal).take([Push(rows, 0)], 0)
    return msgspec.structs.replace(STREAM, source=spec_of("tcp", Tcp(durable=Durability.PROCESS)))


def test_a_live_stream_is_read_from_its_journal_while_its_site_writes_it(tmp_path: Path) -> None:
    (tmp_path / "journal" / "s").mkdir(parents=True)
    stream = journaled(tmp_path, 1000, 3000, 2000, 4000)
    kept = kept_input(stream, tmp_path)
    assert kept.read(None, 2500)["number"].to_pylist() == [1000, 2000]
    assert kept.read(1001, 3500)["number"].to_pylist() == [2000, 3000]
    assert kept.tuples(1001, 3500) == 2
    before = sorted(each.name for each in (tmp_path / "journal" / "s" / "1").iterdir())
    assert kept_input(stream, tmp_path).read(None, 3999).num_rows == 3
    assert sorted(each.name for each in (tmp_path / "journal" / "s" / "1").iterdir()) == before
    with pytest.raises(Unverifiable, match="does not go as far"):
        kept_input(stream, tmp_path).read(None, 4000)


def test_what_is_kept_nowhere_is_refused_with_the_reason(tmp_path: Path) -> None:
    gone = msgspec.structs.replace(STREAM, source=spec_of("tcp", Tcp(durable=Durability.NOTHING)))
    with pytest.raises(Unverifiable, match=r"is not kept: it has `durable: no`$"):
        kept_input(gone, tmp_path)
    sent = msgspec.structs.replace(STREAM, source=spec_of("tcp", Tcp(durable=Durability.REPLICAS)))
    with pytest.raises(Unverifiable, match=r"is not kept: it has `durable: replicas`$"):
        kept_input(sent, tmp_path)
    shed = msgspec.structs.replace(gone, shed=Shed(tuples=1, per_ms=1.0))
    with pytest.raises(Unverifiable, match=r"is not kept: it has a load shedder \(`shed`\)$"):
        kept_input(shed, tmp_path)
    with pytest.raises(Unverifiable, match="nothing ever enters"):
        kept_input(STREAM, tmp_path)
    lost = msgspec.structs.replace(STREAM, source=spec_of("tcp", Tcp()))
    with pytest.raises(Unverifiable, match="there is no journal"):
        kept_input(lost, tmp_path)


def test_the_first_differences_are_shown() -> None:
    found = VerifyDocument(
        query="q",
        begin_ms=1000,
        until_ms=2500,
        archived_ms=(0, 3_600_000),
        last_ms=1500,
        inputs={"s": 1234},
        read_from_ms=500,
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
    whole = "of 1 h that are archived; --all compares everything"
    assert lines[1] == f"span     the last 1.5 s {whole}"
    read = "from 1970-01-01 00:00:00.500 on: windows reach no further back"
    assert lines[2] == f"input    s 1,234 tuples, {read}"
    assert "right was evaluated again in parts by k, not in SQL: sessions" in lines[3]
    assert "wrong was evaluated again in one piece (rows are ranked), not in SQL: TOP" in lines[4]
    assert lines[5] == "✓ right: 3 rows, equal row for row"
    assert lines[7].split() == ["missing", "1970-01-01", "00:00:01.500", "k", "a"]
    assert lines[8].split() == ["unexpected", "1970-01-01", "00:00:01.600", "k", "None"]


def test_times_are_read_with_their_zone() -> None:
    assert api.moment("--from", "1970-01-01T00:00:01Z") == 1000
    assert api.moment("--from", None) is None
    with pytest.raises(api.InvalidInput, match="time zone"):
        api.moment("--from", "1970-01-01T00:00:01")


def test_what_is_wrong_with_the_command_is_said_before_archives_are_read(tmp_path: Path) -> None:
    reach = ClusterContext(cluster="c", pid=1, started_s=0.0, folder="nowhere")
    cluster = api.Cluster(reach, ObedientCluster().store)
    with pytest.raises(api.InvalidInput, match=r"until_ms: '1970-.*' is before begin_ms 1970"):
        api.verify(cluster, "q", AskedSpan(begin_ms=2000, until_ms=1999))
    with pytest.raises(api.InvalidInput, match="begin_ms: is given, and everything as well"):
        api.verify(cluster, "q", AskedSpan(begin_ms=2000, everything=True))
    with pytest.raises(api.InvalidInput, match=r"--sql: .* cannot be read \(No such file"):
        api.read_sql(tmp_path / "nope.sql")


def test_a_query_of_which_only_rejected_tuples_leave_is_refused(tmp_path: Path) -> None:
    cluster = ObedientCluster()
    query = query_manifest(
        statements="REGISTER QUERY alerts RSTREAM(SELECT id FROM north [NOW]);",
        outputs={"alerts.rejected": "control-centre"},
    )
    record = msgspec.structs.replace(query.record, on_error=OnError.SKIP)
    query = msgspec.structs.replace(query, record=record)
    cluster.apply(Manifests(cluster=None, streams=aircraft().streams, queries=(query,)))
    (tmp_path / "archive").mkdir()
    reach = ClusterContext(cluster="c", pid=1, started_s=0.0, folder=str(tmp_path))
    with pytest.raises(Unverifiable, match="proximity has no outputs but rejected tuples"):
        api.verify(api.Cluster(reach, cluster.store), "proximity")


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
    assert whole_from(view, "proximity", 1000, 60_000) == 1000 + reach_ms
    with pytest.raises(Unverifiable, match="which is not archived yet"):
        whole_from(view, "proximity", 1000, 5000)


@pytest.mark.parametrize("window", ["ROWS 3", "UNBOUNDED", "SESSION 1 SECOND"])
def test_windows_without_bound_never_hold_all_that_they_would(window: str) -> None:
    view = view_with(f"REGISTER QUERY alerts RSTREAM(SELECT count(*) AS n FROM north [{window}]);")
    with pytest.raises(Unverifiable, match="windows of alerts may lack tuples"):
        whole_from(view, "proximity", 1000, 60_000)


HOUR_MS = 3_600_000


def kept_of(begin_ms: int, every_ms: int, retained_ms: int = NO_WATERMARK) -> KeptInput:
    """A stream with a tuple every so often."""

    def position_at(at_ms: int) -> Position:
        return Position(next_seq=max((at_ms - begin_ms) // every_ms + 1, 0), watermark_ms=at_ms)

    def piece(after: Position, until_ms: int) -> SourceEmitted:
        none = pa.RecordBatch.from_pylist([], schema=SCHEMA)
        first_ms = np.array([max(begin_ms, after.watermark_ms + 1)])
        return SourceEmitted(
            stream="s", rows=none, watermarks_ms=first_ms, ingestion_times_us=first_ms
        )

    retained = Position() if retained_ms == NO_WATERMARK else position_at(retained_ms)
    return KeptInput(
        stream="s", schema=SCHEMA, retained=retained, end_ms=None,
        position_at=position_at, piece=piece,
    )  # fmt: skip


def chosen(
    asked: AskedSpan, *, every_ms: int = 1, retained_ms: int = NO_WATERMARK, window: str = ""
) -> ChosenSpan:
    """Of a query with a window of 10 s by default, on ten hours of a stream."""
    window = window or "RANGE 10 SECONDS"
    view = view_with(f"REGISTER QUERY alerts RSTREAM(SELECT count(*) AS n FROM north [{window}]);")
    archived = VerifiedSpan(begin_ms=0, until_ms=10 * HOUR_MS)
    kept = kept_of(0, every_ms, retained_ms)
    return chosen_span(view, "proximity", asked, archived, [kept])


def test_by_default_the_last_minutes_are_compared_and_input_is_read_as_far_as_windows_reach() -> (
    None
):
    found = chosen(AskedSpan())
    assert found.span == VerifiedSpan(begin_ms=10 * HOUR_MS - LAST_MS, until_ms=10 * HOUR_MS)
    assert found.last_ms == LAST_MS
    assert found.read_from_ms == 10 * HOUR_MS - LAST_MS - 10_001
    asked = chosen(AskedSpan(last_ms=5000, until_ms=HOUR_MS))
    assert asked.span == VerifiedSpan(begin_ms=HOUR_MS - 5000, until_ms=HOUR_MS)


def test_the_default_span_grows_while_its_input_is_small() -> None:
    """A stream of daily figures has none in ten minutes."""
    found = chosen(AskedSpan(), every_ms=100)
    assert found.span.begin_ms == 10 * HOUR_MS - 8 * LAST_MS
    assert 8 * LAST_MS / 100 <= AMPLE_TUPLES < 16 * LAST_MS / 100
    whole = chosen(AskedSpan(), every_ms=60_000)
    assert (whole.span.begin_ms, whole.last_ms, whole.read_from_ms) == (0, None, None)


def test_everything_is_compared_where_that_is_asked_for() -> None:
    for asked in (AskedSpan(everything=True), AskedSpan(last_ms=100 * HOUR_MS)):
        found = chosen(asked)
        assert (found.span.begin_ms, found.last_ms, found.read_from_ms) == (0, None, None)


@pytest.mark.parametrize("window", ["ROWS 3", "UNBOUNDED", "SESSION 1 SECOND"])
def test_windows_without_an_end_in_time_need_all_of_the_input(window: str) -> None:
    found = chosen(AskedSpan(), window=window)
    assert (found.last_ms, found.read_from_ms, found.endless) == (LAST_MS, None, ("alerts",))
    with pytest.raises(Unverifiable, match="windows of alerts have no end in time: raise `retain`"):
        chosen(AskedSpan(), window=window, retained_ms=HOUR_MS)


def test_what_a_journal_no_longer_has_is_not_compared() -> None:
    found = chosen(AskedSpan(everything=True), retained_ms=HOUR_MS)
    assert found.kept_ms == HOUR_MS + 1
    assert found.span.begin_ms == HOUR_MS + 1 + 10_001
    assert found.read_from_ms == HOUR_MS + 1
    assert chosen(AskedSpan(), retained_ms=HOUR_MS).span.begin_ms == 10 * HOUR_MS - LAST_MS
    with pytest.raises(Unverifiable, match=r"its input is kept from 1970-01-01T01:00:00.001Z on"):
        chosen(AskedSpan(begin_ms=HOUR_MS), retained_ms=HOUR_MS)
    with pytest.raises(Unverifiable, match="windows hold nothing from before"):
        chosen(AskedSpan(), retained_ms=10 * HOUR_MS - 1)


@pytest.mark.parametrize(
    ("begin_ms", "until_ms", "option"),
    [
        (11 * HOUR_MS, None, "begin_ms: '1970-01-01T11:00:00.000Z'"),
        (None, 11 * HOUR_MS, "until_ms"),
        (None, -1, "until_ms"),
    ],
)
def test_a_span_that_is_not_archived_is_refused_with_the_one_that_is(
    begin_ms: int | None, until_ms: int | None, option: str
) -> None:
    with pytest.raises(api.InvalidInput, match=option) as refused:
        chosen(AskedSpan(begin_ms=begin_ms, until_ms=until_ms))
    remedy = "That is from 1970-01-01T00:00:00.000Z to 1970-01-01T10:00:00.000Z."
    assert refused.value.remedy == remedy
    assert chosen(AskedSpan(begin_ms=-1, until_ms=900)).span.until_ms == 900
