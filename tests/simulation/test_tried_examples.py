"""`vivace try` gives what a cluster delivers: every example's query, each on its cluster.

The cluster is the simulated one, with the product's plans, hosts and protocol. It replays files;
`vivace try` reads the same files. Rows must be equal, in their order.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import csv, parquet

from bench.nexmark_events import Events
from examples import fetch, linear_road_traffic
from orchestrator.api.trying import AskedTry, try_query
from orchestrator.api.validation import check
from orchestrator.edges.sinks.delivered import GENERATION, SEQUENCE
from orchestrator.edges.sources import restore, spec_of
from orchestrator.edges.sources.replay import Replay
from orchestrator.manifest import load
from orchestrator.records import StreamRecord
from orchestrator.simulation.world.scenario import Scenario

EXAMPLES = fetch.EXAMPLES
OWN_CLUSTER = ("aircraft", "collision-warning")
"""Examples whose clusters have links with latencies, without which the simulated world has none."""

CLUSTER = """\
kind: Cluster
name: tried
nodes: [{name: one, region: near}, {name: two, region: near}, {name: three, region: near}]
sites:
  - {name: here, region: near}
  - {name: house, region: near}
  - {name: exchange, region: near}
  - {name: desk, region: near}
  - {name: road, region: near}
  - {name: office, region: near}
latencies: latency.csv
"""

NEXMARK = tuple(sorted(path.stem for path in (EXAMPLES / "nexmark").glob("q*.yaml")))
EVENTS = 2_000

SILENT = ("q15", "q16", "q17")
"""They give their figures at the end of the day."""

BEGIN_MS, CAR_BEGIN_MS = 1_633_608_001_000, 1_609_459_200_000
"""Starts of the recordings of aircraft, and of the car."""

ROAD_MS = (420_000, 780_000)
"""The stretch of Linear Road's recording in which segments are crowded and cars collide."""

AFTER_MS = 25_000
"""How long recordings go on after their last tuple, so that windows end."""

TRADES = ("at,symbol,price", "1000,a,99.5", "2000,b,100.0", "2000,a,101.25", "7000,c,")
RATES = ("at,sensor,celsius", "2026-07-01T12:00:00Z,roof,30.0", "2026-07-01T12:00:00Z,cellar,12.5")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A stream's tuples in a file, as a replay has them."""

    path: Path
    time_column: str = "timestamp"
    time_format: str = "ms"
    begin_ms: int
    end_ms: int
    speed: float = 50.0

    def replayed(self, record: StreamRecord) -> StreamRecord:
        """The stream, from this file."""
        replay = Replay(
            path=str(self.path),
            begin_ms=self.begin_ms,
            end_ms=self.end_ms,
            interval_ms=100,
            speed=self.speed,
            time_column=self.time_column,
            time_format=self.time_format,
        )
        return msgspec.structs.replace(record, source=spec_of("replay", replay), shed=None)


def stretch(
    stream: str, source: Path, folder: Path, begin_ms: int, seconds: int, speed: float
) -> Recorded:
    """The beginning of a recording that `make data` fetches."""
    if not source.exists():
        pytest.skip("the recording is not fetched; `make data` fetches it")
    table = parquet.read_table(source)
    end_ms = begin_ms + 1000 * seconds
    path = folder / f"{stream}.parquet"
    parquet.write_table(table.filter(pc.less_equal(table["timestamp"], end_ms)), path)
    return Recorded(path=path, begin_ms=begin_ms, end_ms=end_ms, speed=speed)


def lines(path: Path, time_format: str) -> Recorded:
    """A file of CSV with the timestamp in its column `at`."""
    at = csv.read_csv(path)["at"]
    at_ms = at if time_format == "ms" else at.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    begin_ms, end_ms = pc.min(at_ms).as_py(), pc.max(at_ms).as_py() + AFTER_MS
    return Recorded(
        path=path, time_column="at", time_format=time_format, begin_ms=begin_ms, end_ms=end_ms
    )


def _as_written(record: StreamRecord) -> Recorded:
    """The file that an example's stream replays, from the begin to the end that it names."""
    assert record.source is not None
    replay = restore(record.source)
    assert isinstance(replay, Replay)
    return Recorded(
        path=Path(replay.path),
        time_column=replay.time_column,
        time_format=replay.time_format,
        begin_ms=replay.begin_ms,
        end_ms=replay.end_ms,
    )


def recorded(example: str, folder: Path) -> Mapping[str, Recorded]:
    """The input of an example."""
    if example == "http":
        return {"readings": lines(EXAMPLES / "http" / "readings.csv", "iso")}
    if example == "tcp":
        path = folder / "meters.csv"
        sent = (EXAMPLES / "tcp" / "meters.csv").read_text(encoding="utf-8")
        path.write_text(f"at,meter,watts\n{sent}", encoding="utf-8")
        return {"meters": lines(path, "iso")}
    if example in ("trading", "periodic"):
        manifests = load(sorted((EXAMPLES / example).glob("*.yaml")))
        return {each.record.name: _as_written(each.record) for each in manifests.streams}
    if example in ("kafka", "spark"):
        stream, text = ("trades", TRADES) if example == "kafka" else ("rates", RATES)
        path = folder / f"{stream}.csv"
        path.write_text("\n".join(text), encoding="utf-8")
        return {stream: lines(path, "ms" if example == "kafka" else "iso")}
    if example == "nexmark":
        found: dict[str, Recorded] = {}
        tables = Events(EVENTS).tables()
        begin_ms = min(pc.min(table["timestamp"]).as_py() for table in tables.values())
        for stream, table in tables.items():
            path = folder / f"{stream}.parquet"
            parquet.write_table(table, path)
            found[stream] = Recorded(
                path=path, begin_ms=begin_ms, end_ms=begin_ms + EVENTS // 10 + AFTER_MS
            )
        return found
    if example == "linear-road":
        path = folder / "reports.parquet"
        begin_ms, end_ms = (linear_road_traffic.BEGIN_MS + at_ms for at_ms in ROAD_MS)
        table = linear_road_traffic.reports()
        parquet.write_table(
            table.filter((pc.field("timestamp") >= begin_ms) & (pc.field("timestamp") < end_ms)),
            path,
        )
        return {"reports": Recorded(path=path, begin_ms=begin_ms, end_ms=end_ms)}
    names = ("onboard", "v2v", "centre", "own")
    # The car's processors are emulated: they are as slow as they are.
    prefix, begin_ms, seconds, speed = "collision", CAR_BEGIN_MS, 2, 1.0
    if example == "aircraft":
        names, prefix, begin_ms, seconds, speed = fetch.SITES, example, BEGIN_MS, 360, 180.0
    return {
        name: stretch(
            name, fetch.DATA / f"{prefix}-{name}.parquet", folder, begin_ms, seconds, speed
        )
        for name in names
    }


class Cluster:
    """An example's cluster, which has run to the end of its input."""

    def __init__(self, example: str, folder: Path) -> None:
        self.folder = EXAMPLES / example
        self.recorded = recorded(example, folder)
        paths = [self.folder]
        if example not in OWN_CLUSTER:
            (folder / "latency.csv").write_text("region,near\nnear,1\n", encoding="utf-8")
            (folder / "cluster.yaml").write_text(CLUSTER, encoding="utf-8")
            files = self.folder.glob("*.yaml")
            paths = [folder / "cluster.yaml", *(f for f in files if f.name != "cluster.yaml")]
        manifests = load(paths)
        streams = [
            self.recorded[each.record.name].replayed(each.record) for each in manifests.streams
        ]
        self._flow = check(manifests)
        self._played = Scenario(manifests, seed=1, streams=streams).play(kill_after_s=None)
        self.outputs = {each.record.name: tuple(each.record.outputs) for each in manifests.queries}

    def delivered(self, output: str) -> pa.Table:
        """The rows of an output."""
        return self._played.delivered(output).rows.drop_columns([GENERATION, SEQUENCE])

    def tried(self, query: str, folder: Path) -> Mapping[str, pa.Table]:
        """The rows of a query's outputs as `vivace try` gives them, up to the recordings' end."""
        outputs = self.outputs[query]
        read = self._flow.entering_streams(query)
        try_query(
            AskedTry(
                query=query,
                files=[self.folder],
                inputs=[
                    f"{stream}={one.path}"
                    for stream, one in self.recorded.items()
                    if stream in read
                ],
                outputs=[f"{output}={folder / output}.parquet" for output in outputs],
            ),
            sys.stdin.buffer,
            io.BytesIO(),
        )
        end_ms = min(one.end_ms for one in self.recorded.values())
        found = {name: parquet.read_table(folder / f"{name}.parquet") for name in outputs}
        return {name: one.filter(pc.less_equal(one["_ts"], end_ms)) for name, one in found.items()}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Cluster]:
    def made(example: str) -> Cluster:
        return Cluster(example, tmp_path_factory.mktemp(example))

    return cache(made)


pytestmark = pytest.mark.slow

LONG = ("aircraft", "collision-warning")
"""Examples whose clusters have other tests, too, and take long."""

QUERIES = [
    ("http", "heat"),
    ("tcp", "load"),
    ("kafka", "watch"),
    ("spark", "warmth"),
    ("trading", "trading"),
    ("periodic", "reports"),
    ("linear-road", "traffic"),
    ("aircraft", "proximity"),
    ("collision-warning", "collision"),
    *(("nexmark", query) for query in NEXMARK),
]


def test_every_example_is_tried() -> None:
    written = {
        (file.parent.name, each.record.name)
        for file in EXAMPLES.glob("*/*.yaml")
        for each in load([file]).queries
    }
    assert written == set(QUERIES)


@pytest.mark.parametrize(
    ("example", "query"),
    [pytest.param(*each, marks=pytest.mark.long if each[0] in LONG else ()) for each in QUERIES],
)
def test_a_query_gives_what_its_cluster_delivers(
    cluster: Callable[[str], Cluster], tmp_path: Path, example: str, query: str
) -> None:
    made = cluster(example)
    for output, rows in made.tried(query, tmp_path).items():
        assert rows.equals(made.delivered(output)), output
        assert rows.num_rows or query in SILENT
