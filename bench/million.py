"""Measures the coordinates of a million nodes on Spark; part of the benchmark `coordinates`.

The network is synthetic. Its nodes lie in 40 regions, each some ms wide, of a latency space of 3
dimensions and 150 ms. A round trip is the distance, plus the access delays of both ends
(exponential, mean 2 ms), times noise (log-normal, 5 %). Each node measures 8 peers, a quarter of
them in its own region. Since samples count at both ends, a node has 16 on average. One in a hundred
pairs is held out. Access delays do not fit into a Euclidean space, so no coordinates can be exact.
The error of the noise alone (`floor`) is that of a predictor which knows every round trip without
noise.

Executors generate the samples and write them as Parquet. The measured time begins there: it covers
cutting the samples into blocks and ends with the error on held-out pairs.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from bench.registry import Settings
from foundation.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NODES, QUICK_NODES = 1_000_000, 20_000

EXECUTORS = 2
EXECUTOR_MEMORY_MB, DRIVER_MEMORY_MB = 1536, 768
"""Java heaps; Python's memory comes on top and is measured."""

MEASURED_PER_NODE, NEAR_SHARE = 8, 0.25
REGIONS, DIMENSIONS = 40, 3
WIDTH_MS, REGION_SPREAD_MS, ACCESS_MS, NOISE = 150.0, 6.0, 2.0, 0.05
SEED = 2004

BLOCKS = 10
"""Five tasks a core: even out, and leave each little to hold."""

PART_NODES = 50_000
"""Nodes whose samples are made at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A network of which all truth follows from its size and seed."""

    nodes: int
    seed: int = SEED

    def places(self) -> tuple[FloatArray, FloatArray]:
        """Positions, shape (nodes, 3), and access delays, shape (nodes,), ms."""
        rng = np.random.default_rng(self.seed)
        centres_ms = rng.uniform(0, WIDTH_MS, (REGIONS, DIMENSIONS))
        region = np.arange(self.nodes) % REGIONS
        positions_ms = centres_ms[region] + rng.normal(
            scale=REGION_SPREAD_MS, size=(self.nodes, DIMENSIONS)
        )
        return positions_ms, rng.exponential(ACCESS_MS, self.nodes)

    def rtt_ms(self, nodes: IntArray, peers: IntArray) -> FloatArray:
        """Round trips without noise, ms."""
        positions_ms, access_ms = self.places()
        distance_ms = np.linalg.norm(positions_ms[nodes] - positions_ms[peers], axis=1)
        return distance_ms + access_ms[nodes] + access_ms[peers]

    def samples(self, part: int) -> pa.RecordBatch:
        """What the nodes of a part measure; a node that draws itself measures nothing."""
        rng = np.random.default_rng([self.seed, part])
        first, end = part * PART_NODES, min((part + 1) * PART_NODES, self.nodes)
        nodes = np.repeat(np.arange(first, end), MEASURED_PER_NODE)
        peers = rng.integers(self.nodes, size=len(nodes))
        near = rng.random(len(nodes)) < NEAR_SHARE
        # Regions go by the remainder: the nearest multiple gives a peer of the same region.
        peers = np.where(near, peers - peers % REGIONS + nodes % REGIONS, peers)
        usable = (peers != nodes) & (peers < self.nodes)
        nodes, peers = nodes[usable], peers[usable]
        rtt_ms = self.rtt_ms(nodes, peers) * np.exp(rng.normal(scale=NOISE, size=len(nodes)))
        return pa.RecordBatch.from_pydict({"node": nodes, "peer": peers, "rtt_ms": rtt_ms})


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeSamples:
    """Makes the samples of the parts that it is given; runs on executors."""

    world: World

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in batch.column(0).to_pylist():
                yield self.world.samples(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Relative error of the truth itself on samples; runs on executors."""

    world: World

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            nodes, peers, rtt_ms = (column.to_numpy() for column in batch.columns)
            errors = np.abs(self.world.rtt_ms(nodes, peers) - rtt_ms) / rtt_ms
            yield pa.RecordBatch.from_pydict({"relative_error": errors})


def measure(settings: Settings) -> dict[str, float]:
    """Coordinates of 1,000,000 nodes (quick: 20,000) by two executors of one core each.

    Returns
    -------
    dict
        `million.nodes`, `.samples`, `.iterations`, `.seconds`; `.heldout_median_relative_error`,
        `.heldout_p90_relative_error` and the same of the noise alone, `.floor_…`;
        `.driver_peak_mb`, `.executor_peak_mb`.
    """
    from orchestrator.spark.arrow_functions import map_in_arrow
    from orchestrator.spark.bulk.coordinates import (
        SPARK_SETTINGS,
        CoordinateSettings,
        find_coordinates,
    )
    from orchestrator.spark.hosts.session import SessionSettings, start_session, stop_session

    world = World(nodes=QUICK_NODES if settings.quick else NODES)
    with tempfile.TemporaryDirectory(prefix="million-") as folder:
        work = Path(folder)
        session = start_session(
            SessionSettings(
                name="million",
                work_dir=work / "spark",
                executors=EXECUTORS,
                executor_memory_mb=EXECUTOR_MEMORY_MB,
                driver_memory_mb=DRIVER_MEMORY_MB,
                extra={**SPARK_SETTINGS, "spark.sql.shuffle.partitions": str(BLOCKS)},
            )
        )
        try:
            settings.say(f"{world.nodes:,} nodes measure {MEASURED_PER_NODE} peers each")
            path = str(work / "measured")
            parts = math.ceil(world.nodes / PART_NODES)
            made = map_in_arrow(
                session.range(0, parts, 1, parts),
                MakeSamples(world=world),
                "node long, peer long, rtt_ms double",
            )
            made.write.parquet(path)
            found = find_coordinates(
                session,
                session.read.parquet(path),
                work / "coordinates",
                CoordinateSettings(block_nodes=world.nodes // BLOCKS),
                nodes=world.nodes,
                say=settings.say,
            )
            floor_median, floor_p90 = _noise(session, work / "coordinates" / "held-out", world)
        finally:
            stop_session(session)
    return {
        "million.nodes": found.samples.nodes,
        "million.samples": found.samples.samples,
        "million.seconds": found.seconds,
        "million.iterations": found.iterations,
        "million.heldout_median_relative_error": found.held_out_median,
        "million.heldout_p90_relative_error": found.held_out_p90,
        "million.floor_median_relative_error": floor_median,
        "million.floor_p90_relative_error": floor_p90,
        "million.driver_peak_mb": found.driver_peak_mb,
        "million.executor_peak_mb": found.executor_peak_mb,
    }


def _noise(session: SparkSession, held_out: Path, world: World) -> tuple[float, float]:
    """Median and 90th percentile of what noise alone makes of held-out samples."""
    from pyspark.sql import functions as sql

    from orchestrator.spark.arrow_functions import map_in_arrow

    samples = session.read.parquet(str(held_out)).select("node", "peer", "rtt_ms").coalesce(2)
    errors = map_in_arrow(samples, Noise(world=world), "relative_error double")
    quantiles = sql.percentile_approx("relative_error", [0.5, 0.9], 10_000)
    (row,) = errors.agg(quantiles.alias("quantiles")).collect()
    median, p90 = row["quantiles"]
    return median, p90
