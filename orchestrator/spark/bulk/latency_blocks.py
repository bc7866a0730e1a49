"""Latency samples cut into blocks of nodes, once for all iterations of the coordinates.

A sample counts for both its ends, so it goes to the block of each. Some pairs are held out, to
measure the error on pairs that no coordinate was fitted to. A hash of the pair and the seed
decides which; it is the same in both directions and in every run.

Nodes may be named by anything that Spark can sort. Blocks number them from 0. Unless the nodes are
numbered that way already, an index is made: the distinct names in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from orchestrator.embedded.spark_processes import executor_peak_mb
from orchestrator.errors import InvalidInput
from orchestrator.spark.arrow_functions import apply_in_arrow
from orchestrator.spark.bulk.block_files import Layout, complete, completed, write_block
from topology.latency_samples import LatencySamples, medians, possible

COLUMNS = ("node", "peer", "rtt_ms")
"""Columns of samples: the node that measured, its peer, the round trip in ms."""

SAMPLES_FOLDER, HELD_OUT_FOLDER, INDEX_FOLDER = "samples", "held-out", "index"

PAIR_HASHES = 1_000_000
"""A pair's hash is one of so many: the grain of the share that is held out."""

_numbered_bits = 33
"""Spark's `monotonically_increasing_id` is the partition, then so many bits of row number."""


class SamplesRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the samples in blocks.

    Attributes
    ----------
    nodes
        Distinct nodes; if they are numbered, the number that the caller gave.
    samples
        As given.
    fitted
        Ends of the pairs that coordinates are fitted to; a pair has the median of its samples.
    held_out
        Samples kept aside.
    rejected
        Impossible round trips, and nodes that measured themselves.
    indexed
        Whether an index names the nodes.
    peak_mb
        Peak memory of an executor.
    """

    nodes: int
    samples: int
    fitted: int
    held_out: int
    rejected: int
    indexed: bool
    peak_mb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplesInBlocks:
    """Writes the samples of a block; what `applyInArrow` runs on an executor."""

    folder: Path
    layout: Layout

    def __call__(self, key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        block = int(key[0].as_py())
        measured, held_out = table.column("measured"), table.column("held_out")
        samples = _samples(table)
        is_possible = possible(samples)
        is_measured = measured.to_numpy().astype(np.bool_)
        is_held_out = held_out.to_numpy().astype(np.bool_)
        aside = samples.take(is_possible & is_held_out & is_measured)
        fitted = medians(samples.take(is_possible & ~is_held_out))
        self.write(block, fitted, aside)
        report = {
            "fitted": [len(fitted)],
            "held_out": [len(aside)],
            "rejected": [int((is_measured & ~is_possible).sum())],
            "peak_mb": [executor_peak_mb()],
        }
        return pa.Table.from_pydict({"block": [block]} | report)

    def write(self, block: int, fitted: LatencySamples, aside: LatencySamples) -> None:
        """Write both files of a block."""
        for name, kept in ((SAMPLES_FOLDER, fitted), (HELD_OUT_FOLDER, aside)):
            columns = {"node": kept.nodes, "peer": kept.peers, "rtt_ms": kept.rtt_ms}
            write_block(self.folder / name, block, columns)


def prepare_samples(
    samples: DataFrame,
    folder: Path,
    block_nodes: int,
    *,
    nodes: int | None,
    share: float,
    seed: int,
) -> SamplesRecord:
    """Cut samples into block files below `folder`, or return the record of an earlier call.

    Parameters
    ----------
    samples
        With `COLUMNS`. Read twice, so Parquet or cached; thrice if an index is made.
    block_nodes
        Nodes per block.
    nodes
        Given if nodes are numbered from 0 to `nodes` − 1.
    share
        Of pairs to hold out, in [0, 1).
    seed
        Decides which pairs.

    Raises
    ------
    InvalidInput
        A column is missing, a node has no name, or a number out of range; there is no sample.
    """
    target = folder / SAMPLES_FOLDER
    done = completed(target, SamplesRecord)
    if done is not None:
        return done
    missing = [name for name in COLUMNS if name not in samples.columns]
    if missing:
        raise _invalid(missing[0], None, f"is missing among {', '.join(samples.columns)}")
    given = samples.select(*COLUMNS)
    count = _check(given, nodes)
    indexed = nodes is None
    if nodes is None:
        nodes, given = _indexed(given, folder / INDEX_FOLDER)
    layout = Layout(nodes=nodes, block_nodes=block_nodes)
    rows = _both_ways(given, layout, share, seed)
    writer = SamplesInBlocks(folder=folder, layout=layout)
    schema = "block long, fitted long, held_out long, rejected long, peak_mb double"
    reports = apply_in_arrow(rows, "block", writer, schema).collect()
    written = {int(report["block"]) for report in reports}
    nothing = LatencySamples(
        nodes=np.array([], np.int64), peers=np.array([], np.int64), rtt_ms=np.array([])
    )
    for block in set(range(layout.blocks)) - written:
        writer.write(block, nothing, nothing)
    record = SamplesRecord(
        nodes=nodes,
        samples=count,
        fitted=sum(report["fitted"] for report in reports),
        held_out=sum(report["held_out"] for report in reports),
        rejected=sum(report["rejected"] for report in reports),
        indexed=indexed,
        peak_mb=max(report["peak_mb"] for report in reports),
    )
    complete(target, record)
    return record


def named(session: SparkSession, numbered: DataFrame, folder: Path) -> DataFrame:
    """A frame with the nodes' names in place of their numbers in the column `node`."""
    names = session.read.parquet(str(folder / INDEX_FOLDER))
    rest = [name for name in numbered.columns if name != "node"]
    return numbered.join(names, "node").select(names["name"].alias("node"), *rest)


def _check(samples: DataFrame, nodes: int | None) -> int:
    """See that every sample names two nodes; number of samples."""
    summaries = [sql.count("*").alias("samples")]
    for name in ("node", "peer"):
        summaries += [
            sql.count(name).alias(f"{name}_named"),
            sql.min(name).alias(f"{name}_min"),
            sql.max(name).alias(f"{name}_max"),
        ]
    (row,) = samples.agg(*summaries).collect()
    if not row["samples"]:
        raise _invalid("", None, "has no samples")
    for name in ("node", "peer"):
        unnamed = row["samples"] - row[f"{name}_named"]
        if unnamed:
            raise _invalid(name, None, f"is null in {unnamed} of {row['samples']} samples")
        if nodes is None:
            continue
        for value in (row[f"{name}_min"], row[f"{name}_max"]):
            if not isinstance(value, int) or not 0 <= value < nodes:
                raise _invalid(name, value, f"is not one of {nodes} nodes numbered from 0")
    return row["samples"]


def _indexed(samples: DataFrame, folder: Path) -> tuple[int, DataFrame]:
    """Number of nodes, and the samples with numbers in place of names; writes the index."""
    session = samples.sparkSession
    scratch = folder.with_name(f"{folder.name}-unnumbered")
    ends = samples.select(sql.explode(sql.array("node", "peer")).alias("name"))
    place = sql.monotonically_increasing_id().alias("place")
    ends.distinct().sort("name").select("name", place).write.mode("overwrite").parquet(str(scratch))
    placed = session.read.parquet(str(scratch)).select(
        "name",
        sql.shiftright("place", _numbered_bits).alias("part"),
        (sql.col("place") % 2**_numbered_bits).alias("row"),
    )
    # One row for each of Spark's partitions, of which there are as few as there are blocks.
    counts = {row["part"]: row["count"] for row in placed.groupBy("part").count().collect()}
    total, starts = 0, list[tuple[int, int]]()
    for part in sorted(counts):
        starts.append((part, total))
        total += counts[part]
    offsets = session.createDataFrame(starts, "part long, start long")
    number = (sql.col("start") + sql.col("row")).alias("node")
    index = placed.join(sql.broadcast(offsets), "part").select("name", number)
    index.write.mode("overwrite").parquet(str(folder))
    index = session.read.parquet(str(folder))
    numbered = samples
    for end in ("node", "peer"):
        names = index.select(sql.col("name").alias(end), sql.col("node").alias(f"{end}_number"))
        numbered = numbered.join(names, end).drop(end).withColumnRenamed(f"{end}_number", end)
    return total, numbered.select(*COLUMNS)


def _both_ways(samples: DataFrame, layout: Layout, share: float, seed: int) -> DataFrame:
    """Each sample at either end, with its block, and whether it is held out."""
    node, peer = sql.col("node").cast("long"), sql.col("peer").cast("long")
    pair = sql.xxhash64(sql.least(node, peer), sql.greatest(node, peer), sql.lit(seed))
    held_out = sql.pmod(pair, sql.lit(PAIR_HASHES)) < sql.lit(round(share * PAIR_HASHES))
    # A missing round trip becomes NaN, which is refused and counted like an impossible one.
    rtt_ms = sql.coalesce(sql.col("rtt_ms").cast("double"), sql.lit(float("nan")))
    ends: Sequence[tuple[object, object, bool]] = ((node, peer, True), (peer, node, False))
    rows = [
        sql.struct(
            sql.lit(one).alias("node"), sql.lit(other).alias("peer"), sql.lit(own).alias("measured")
        )
        for one, other, own in ends
    ]
    both = samples.select(
        sql.explode(sql.array(*rows)).alias("end"),
        rtt_ms.alias("rtt_ms"),
        held_out.alias("held_out"),
    )
    block = sql.floor(sql.col("end.node") / layout.block_nodes).alias("block")
    return both.select("end.*", "rtt_ms", "held_out", block)


def _samples(table: pa.Table) -> LatencySamples:
    nodes, peers, rtt_ms = (table.column(name).to_numpy() for name in COLUMNS)
    return LatencySamples(nodes=nodes, peers=peers, rtt_ms=rtt_ms)


def _invalid(field: str, value: object, problem: str) -> InvalidInput:
    return InvalidInput(
        "latency samples", field, value, problem, f"Each needs {', '.join(COLUMNS)}."
    )
