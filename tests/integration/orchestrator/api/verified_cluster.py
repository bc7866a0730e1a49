"""A program: `vivace verify` on a cluster whose coordinator and hosts are none, with real Spark.

`FOLDER ARGUMENT…`: the folder gets a recording and an archive; the arguments are those of the verb.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import parquet

from orchestrator import api
from orchestrator.api.carrying import carry_out
from orchestrator.cli import main
from orchestrator.deploy.context import ClusterContext
from orchestrator.edges.events import Deliver
from orchestrator.edges.sinks.archive import Archive
from orchestrator.edges.sources import spec_of
from orchestrator.edges.sources.replay import Replay
from orchestrator.manifest import Manifests
from orchestrator.operations.operation import Operation
from orchestrator.records import SinkAssignment
from orchestrator.spark.hosts import session
from streams.vectors.chunk import Chunk, stream_schema
from tests.obedient_cluster import ObedientCluster, query_manifest, stream_manifest

LAST_MS = 3_600_000
EVERY_MS = 20
STATEMENTS = """\
REGISTER QUERY evens RSTREAM(SELECT id, x FROM north [NOW] WHERE id % 2 = 0);
REGISTER QUERY alerts RSTREAM(SELECT id, x FROM evens [NOW]);
"""


def recorded(folder: Path) -> pa.Table:
    """An hour of a stream, in a file."""
    at = np.arange(0, LAST_MS + 1, EVERY_MS)
    table = pa.Table.from_pydict({"timestamp": at, "id": at % 1000, "x": at / 1000.0})
    parquet.write_table(table, folder / "north.parquet")
    return table


def archived(folder: Path, table: pa.Table) -> None:
    """All results."""
    kept = table.take(np.flatnonzero(table["id"].to_numpy() % 2 == 0))
    schema = stream_schema({"id": "int", "x": "float"})
    rows = kept.rename_columns(schema.names).cast(schema).combine_chunks().to_batches()[0]
    sink = SinkAssignment(stream="alerts", columns={"id": "int", "x": "float"}, deadline_ms=300.0)
    archive = Archive().open(sink, folder / "archive")
    watermarks_ms = rows.column(0).to_numpy()
    chunk = Chunk(
        first_seq=0,
        rows=rows,
        watermarks_ms=watermarks_ms,
        ingestion_times_us=watermarks_ms * 1000,
    )
    arrived_us = int(watermarks_ms[-1]) * 1000
    archive.keep(
        Deliver(stream="alerts", epoch=1, generation=1, chunk=chunk, lost=0, arrived_us=arrived_us)
    )
    archive.flush()
    archive.close()


def begin(folder: Path) -> api.Cluster:
    """A cluster that has replayed all of it."""
    table = recorded(folder)
    (folder / "archive").mkdir()
    archived(folder, table)
    replay = Replay(path=str(folder / "north.parquet"), begin_ms=0, end_ms=LAST_MS)
    north = stream_manifest("north")
    columns = {"id": "int", "x": "float"}
    record = msgspec.structs.replace(
        north.record, columns=columns, source=spec_of("replay", replay)
    )
    cluster = ObedientCluster()
    streams = (msgspec.structs.replace(north, record=record),)
    query = query_manifest(statements=STATEMENTS)
    cluster.apply(Manifests(cluster=None, streams=streams, queries=(query,)))
    reach = ClusterContext(cluster="c", pid=1, started_s=0.0, folder=str(folder))
    return api.Cluster(reach, cluster.store)


if __name__ == "__main__":
    # Whoever runs the tests in the background may have had it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    made = begin(Path(sys.argv[1]))

    class InThisProcess:
        """A client whose operations are carried out here."""

        view_age_s = 0.0

        def run(self, operation: Operation[Any, Any], asked: Any, tell: api.Progress) -> Any:
            return carry_out(operation, made, asked, tell)

    sys.argv[1:] = ["verify", "proximity", *sys.argv[2:]]

    # There are no hosts to which Spark should leave the processors, but other tests.
    def connect(**_: object) -> InThisProcess:
        return InThisProcess()

    with patch("vivace.cluster.connect", connect), patch(f"{session.__name__}._be_nice"):
        main.main()
