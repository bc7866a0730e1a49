"""Bulk planning: coordinates and placements of a million nodes, as jobs of Spark.

They need no cluster of Vivace's. Everything that was given is checked before Spark starts.
"""

from __future__ import annotations

import math
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from orchestrator.embedded.spark_processes import driver_peak_mb
from orchestrator.progress import Progress, silent
from orchestrator.results.bulk import BulkEmbedding, BulkPlacement, SequentialComparison
from orchestrator.spark.bulk.bulk_placement import place_on_spark
from orchestrator.spark.bulk.bulk_session import bulk_session, peak_mb
from orchestrator.spark.bulk.coordinates import CoordinateSettings, find_coordinates
from orchestrator.spark.bulk.out_folder import RESULT, check_out, replacing
from orchestrator.spark.bulk.planning_tables import (
    check_latencies,
    latency_files,
    read_nodes,
    read_queries,
    write_plan,
)
from orchestrator.spark.spark_choice import SparkChoice
from placement.bulk import BulkPlan, BulkSettings
from placement.bulk_check import compare
from placement.network import NetworkView
from placement.records import Request
from placement.settings import Settings

FIT = Settings()
"""How queries are placed."""


def bulk_coordinates(
    latencies: Path,
    out: Path,
    *,
    overwrite: bool = False,
    dimensions: int = 4,
    seed: int = 0,
    spark: SparkChoice | None = None,
    on_progress: Progress = silent,
) -> BulkEmbedding:
    """Find coordinates from latency samples.

    Parameters
    ----------
    latencies
        Table of samples.
    out
        Folder to write: a table of nodes.

    Raises
    ------
    InvalidInput
        The table cannot be used, or the folder not be written.
    Unreachable
        Spark cannot be had.
    """
    settings = CoordinateSettings(dimensions=dimensions, seed=seed)
    check_out(out, overwrite=overwrite)
    on_progress("check", str(latencies))
    check_latencies(latencies)
    with replacing(out) as folder:
        work = folder / "_work"
        files = latency_files(latencies, work / "tables")
        with bulk_session(spark or SparkChoice(), on_progress) as session:
            found = find_coordinates(
                session,
                session.read.parquet(*files),
                work / "job",
                settings,
                say=lambda phrase: on_progress("coordinates", phrase),
            )
            on_progress("write", str(out))
            # The folder is there, but holds no table yet.
            found.frame(session).write.mode("append").parquet(str(folder))
        shutil.rmtree(work)
        result = BulkEmbedding(
            out=str(out),
            nodes=found.samples.nodes,
            samples=found.samples.samples,
            rejected=found.rejected,
            held_out=found.samples.held_out,
            median_relative_error=_known(found.held_out_median),
            p90_relative_error=_known(found.held_out_p90),
            iterations=found.iterations,
            seconds=found.seconds,
            driver_peak_mb=found.driver_peak_mb,
            executor_peak_mb=found.executor_peak_mb,
        )
        (folder / RESULT).write_bytes(msgspec.json.encode(result))
    return result


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def bulk_place(
    nodes: Path,
    queries: Path,
    out: Path,
    *,
    overwrite: bool = False,
    round_size: int = 100,
    sample: int = 0,
    seed: int = 0,
    spark: SparkChoice | None = None,
    on_progress: Progress = silent,
) -> BulkPlacement:
    """Place queries on nodes.

    Parameters
    ----------
    nodes, queries
        Tables.
    out
        Folder to write: a table of placements and one of queries.
    round_size
        Queries that are placed at the same time.
    sample
        Queries to compare with the sequential planner; 0: none.
    seed
        Draws them.

    Raises
    ------
    InvalidInput
        A table cannot be used, or the folder not be written.
    Unreachable
        Spark cannot be had.
    """
    check_out(out, overwrite=overwrite)
    on_progress("check", str(nodes))
    view = read_nodes(nodes)
    on_progress("check", str(queries))
    requests = read_queries(queries, view, nodes)
    rng = np.random.default_rng(seed)
    with replacing(out) as folder:
        with bulk_session(spark or SparkChoice(), on_progress) as session:
            began = time.monotonic()
            found = place_on_spark(
                session,
                requests,
                view,
                bulk=BulkSettings(round_size=round_size),
                settings=FIT,
                rng=rng,
                say=lambda phrase: on_progress("placement", phrase),
            )
            seconds = time.monotonic() - began
            peaks_mb = driver_peak_mb(), peak_mb(session)
        check = _compared(requests, view, found, sample, rng, on_progress) if sample else None
        on_progress("write", str(out))
        write_plan(folder, requests, found)
        replicas = Counter(
            node for each in found.plan.placements for node in (each.primary, each.secondary)
        )
        result = BulkPlacement(
            out=str(out),
            nodes=len(view.nodes),
            queries=len(requests),
            placed=len(found.plan.queries),
            refused=len(found.refused),
            rounds=found.rounds,
            placings=found.placings,
            network_usage_bytes=sum(each.network_usage for each in found.plan.queries),
            most_replicas=max(replicas.values(), default=0),
            seconds=seconds,
            driver_peak_mb=peaks_mb[0],
            executor_peak_mb=peaks_mb[1],
            check=check,
        )
        (folder / RESULT).write_bytes(msgspec.json.encode(result))
    return result


def _compared(
    requests: Sequence[Request],
    view: NetworkView,
    found: BulkPlan,
    sample: int,
    rng: np.random.Generator,
    on_progress: Progress,
) -> SequentialComparison:
    compared = compare(
        requests,
        view,
        found,
        sample=sample,
        settings=FIT,
        rng=rng,
        say=lambda done: on_progress("comparison", f"{done} of {sample} queries"),
    )
    return SequentialComparison(
        queries=compared.queries,
        bulk_cost_bytes=compared.bulk_cost,
        sequential_cost_bytes=compared.sequential_cost,
        difference=compared.difference,
        refused_otherwise=compared.refused_otherwise,
    )
