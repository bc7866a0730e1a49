"""Mass placement on Spark: the rounds of `placement.bulk`, placed by executors.

The driver goes from round to round as it would alone; only what places a round differs. A round is
one Spark job: a DataFrame of queries through `mapInArrow`, each partition placed by the very
function that a single process uses, so the plan is the same whatever the executors and partitions.

The network is written once, to a folder that driver and executors see under the same path, and
each Python worker reads it once. The load, some numbers a node, goes with each round's job.
Queries and outcomes are msgpack: queries hold what a `QueryGraph` is made from.
"""

from __future__ import annotations

import functools
import logging
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from orchestrator.spark.jobs.arrow_functions import map_in_arrow
from orchestrator.spark.jobs.view_files import read_view, write_view
from placement.bulk import (
    Around,
    BulkPlan,
    BulkSettings,
    Candidate,
    Outcome,
    PlaceRound,
    place_apart,
    plan_in_rounds,
)
from placement.graph import Link, Operator, QueryGraph
from placement.load import Load
from placement.network import NetworkView
from placement.records import Request
from placement.settings import Settings
from topology.arrays import FloatArray, IntArray

_log = logging.getLogger("vivace.bulk_placement")


OUTCOME_SCHEMA = "outcome binary"


class RequestRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A query of a round as it travels."""

    rank: int
    operators: tuple[Operator, ...]
    links: tuple[Link, ...]
    deadline_ms: float
    recovery_bound_ms: float
    detection_ms: float
    points_ms: dict[str, list[float]]


_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(RequestRecord)
_outcomes = msgspec.msgpack.Decoder(Outcome)


def place_on_spark(
    session: SparkSession,
    requests: Sequence[Request],
    view: NetworkView,
    work: Path,
    *,
    bulk: BulkSettings | None = None,
    settings: Settings | None = None,
    rng: np.random.Generator,
    say: Callable[[str], None] = _log.info,
) -> BulkPlan:
    """Place many queries, as `plan_in_rounds` does, each round by all executors.

    Parameters
    ----------
    session
        Any; faster if Python workers are reused (`spark.python.worker.reuse`).
    work
        Folder that driver and executors see under the same path; made if missing.
    requests, view, mass, settings, rng, say
        As there. A round should have several queries for each executor.

    Raises
    ------
    GraphError, NetworkError, NoNode
        As there.
    """
    settings = settings or Settings()
    folder = work.absolute() / f"network-{uuid.uuid4().hex}"
    write_view(folder, view)
    try:
        return plan_in_rounds(
            requests,
            view,
            bulk=bulk,
            settings=settings,
            rng=rng,
            place=placing_on_spark(session, folder, settings),
            say=say,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def placing_on_spark(session: SparkSession, network: Path, settings: Settings) -> PlaceRound:
    """Places rounds by a session's executors.

    Parameters
    ----------
    network
        Where `write_view` has put the network.
    """

    def place(queries: Sequence[Candidate], around: Around) -> Iterable[Outcome]:
        table = pa.Table.from_pydict(
            {
                "query": [query.request.graph.name for query in queries],
                "request": [_encoder.encode(_record(query)) for query in queries],
            }
        )
        task = PlaceQueries(
            network=network,
            settings=settings,
            replicas=around.start.replicas_by_node,
            used_cores=around.start.used_cores,
            expected=around.expected,
        )
        rows = map_in_arrow(session.createDataFrame(table), task, OUTCOME_SCHEMA).collect()
        return [_outcomes.decode(row["outcome"]) for row in rows]

    return place


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlaceQueries:
    """What `mapInArrow` runs: rows are queries, an outcome comes back for each.

    Attributes
    ----------
    network
        Folder of the network.
    copies, used_cores
        The load that the round starts with, by node, shape (n,).
    expected
        As `Around.expected`.
    """

    network: Path
    settings: Settings
    replicas: IntArray
    used_cores: FloatArray
    expected: tuple[IntArray, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        view = _network(self.network)
        start = Load(
            view,
            operator_load=self.settings.operator_load,
            cpu=self.settings.cpu,
            replicas=self.replicas,
            used_cores=self.used_cores,
        )
        around = Around(start=start, expected=self.expected)
        for batch in batches:
            queries = map(_candidate, batch.column(0).to_pylist(), batch.column(1).to_pylist())
            outcomes = place_apart(queries, around, view, self.settings)
            encoded = [_encoder.encode(outcome) for outcome in outcomes]
            yield pa.RecordBatch.from_pydict({"outcome": encoded})


@functools.lru_cache(maxsize=1)
def _network(folder: Path) -> NetworkView:
    """The network, read once by each Python worker; every job's has a name of its own."""
    return read_view(folder)


def _record(query: Candidate) -> RequestRecord:
    graph, deadline_ms, recovery_bound_ms, detection_ms = query.request
    return RequestRecord(
        rank=query.rank,
        operators=graph.operators,
        links=graph.links,
        deadline_ms=deadline_ms,
        recovery_bound_ms=recovery_bound_ms,
        detection_ms=detection_ms,
        points_ms={name: point_ms.tolist() for name, point_ms in query.points_ms.items()},
    )


def _candidate(name: str, encoded: bytes) -> Candidate:
    record = _requests.decode(encoded)
    return Candidate(
        rank=record.rank,
        request=Request(
            QueryGraph(name=name, operators=record.operators, links=record.links),
            record.deadline_ms,
            record.recovery_bound_ms,
            record.detection_ms,
        ),
        points_ms={name: np.array(point_ms) for name, point_ms in record.points_ms.items()},
    )
