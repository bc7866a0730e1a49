"""Coordinates for a million nodes: the schedule of `topology.bulk_embedding` in blocks on Spark.

Samples are cut into blocks of nodes once (`latency_blocks`). An iteration is one Spark job with a
task a block: it reads where all nodes are, moves its own, writes its file (`coordinate_blocks`).
The driver sees a report a block, no coordinates. In the work folder:

    job.json              what the job was asked for
    samples/, held-out/   the samples, a Parquet file a block
    index/                the nodes' names, if they are not numbers from 0
    iteration-00017/      where the nodes are after 17 iterations, a Parquet file a block

A folder is complete when it has `_SUCCESS`. Called again with the same folder, the job goes on
after the last complete iteration; as all randomness comes from seed, iteration and block, the
result is the same as without the interruption.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import msgspec
from pyspark.sql import DataFrame, SparkSession

from orchestrator.errors import VivaceError
from orchestrator.spark.jobs.block_files import Layout, remove
from orchestrator.spark.jobs.coordinate_blocks import ERROR
from orchestrator.spark.jobs.coordinate_job import (
    CoordinateJob,
    CoordinateSettings,
    iteration_folder,
)
from orchestrator.spark.jobs.latency_blocks import SamplesRecord, named, prepare_samples
from orchestrator.spark.jobs.peak_memory import driver_peak_mb

__all__ = [
    "SPARK_SETTINGS",
    "CoordinateSettings",
    "FoundCoordinates",
    "IncompatibleJob",
    "find_coordinates",
]

_log = logging.getLogger("vivace.coordinates")

SPARK_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        # Tasks are short and many: a Python that has imported numpy is worth keeping.
        "spark.python.worker.reuse": "true",
        # Tasks may be repeated: they write the same file again.
        "spark.task.maxFailures": "4",
    }
)
"""Settings for a session of this job (`SessionSettings.extra`), where hosts need others."""


class IncompatibleJob(VivaceError):
    """The work folder holds another job."""


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the work folder was begun with; must be the same to go on."""

    settings: CoordinateSettings
    nodes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCoordinates:
    """Where the coordinates are, and what they are worth.

    Attributes
    ----------
    folder
        The work folder.
    samples
        What they were found from.
    iterations, resumed_after
        In all; and how many of them an earlier call had done.
    mean_error
        Mean of the nodes' own error estimates.
    held_out_median, held_out_p90
        Relative error on held-out samples; NaN if none was held out.
    rejected, resets
        Impossible samples; coordinates that stopped being numbers and started over.
    driver_peak_mb, executor_peak_mb
        Peak memory: driver, and executor that took most (see `peak_memory`).
    seconds
        This call took.
    """

    folder: Path
    samples: SamplesRecord
    dimensions: int
    iterations: int
    resumed_after: int
    mean_error: float
    held_out_median: float
    held_out_p90: float
    rejected: int
    resets: int
    driver_peak_mb: float
    executor_peak_mb: float
    seconds: float

    def frame(self, session: SparkSession) -> DataFrame:
        """Columns `node`, `x0` …, `error`: coordinates in ms, relative error estimate."""
        files = str(iteration_folder(self.folder, self.iterations))
        axes = [f"x{axis}" for axis in range(self.dimensions)]
        numbered = session.read.parquet(files).select("node", *axes, ERROR)
        return named(session, numbered, self.folder) if self.samples.indexed else numbered


def find_coordinates(
    session: SparkSession,
    samples: DataFrame,
    work: Path,
    settings: CoordinateSettings | None = None,
    *,
    nodes: int | None = None,
    say: Callable[[str], None] = _log.info,
) -> FoundCoordinates:
    """Find coordinates from latency samples, or go on doing so.

    Parameters
    ----------
    session
        Any; `SPARK_SETTINGS` make it faster.
    samples
        Columns `node`, `peer`, `rtt_ms`. Not read again when the work folder has them in blocks.
    work
        Folder that driver and executors see under the same path; made if missing.
    settings
        The defaults if not given.
    nodes
        Given if nodes are numbered from 0 to `nodes` − 1, which saves making an index.
    say
        Takes a phrase that tells what has been done, for progress.

    Raises
    ------
    InvalidInput
        Settings or samples that cannot be used.
    IncompatibleJob
        The folder holds a job with other settings.
    """
    began = time.monotonic()
    settings = settings or CoordinateSettings()
    work = work.absolute()
    _claim(work, JobRecord(settings=settings, nodes=nodes))
    prepared = prepare_samples(
        samples,
        work,
        settings.block_nodes,
        nodes=nodes,
        share=settings.held_out_share,
        seed=settings.seed,
    )
    say(f"{prepared.samples:,} samples of {prepared.nodes:,} nodes are in blocks")
    layout = Layout(nodes=prepared.nodes, block_nodes=settings.block_nodes)
    job = CoordinateJob(session, work, settings, layout)
    resumed_after, record = job.last()
    for number in range(resumed_after + 1, job.iterations + 1):
        record = job.run(number, record)
        remove(iteration_folder(work, number - 2))
        error = record.report.error_sum / record.report.nodes
        known = f", error estimate {error:.3f}" if error else ""
        say(f"iteration {number} of {job.iterations} of {prepared.nodes:,} nodes{known}")
    assert record is not None
    median, p90 = job.held_out_errors() if prepared.held_out else (float("nan"),) * 2
    return FoundCoordinates(
        folder=work,
        samples=prepared,
        dimensions=settings.dimensions,
        iterations=job.iterations,
        resumed_after=resumed_after,
        mean_error=record.report.error_sum / record.report.nodes,
        held_out_median=median,
        held_out_p90=p90,
        rejected=prepared.rejected + record.rejected,
        resets=record.resets,
        driver_peak_mb=driver_peak_mb(),
        executor_peak_mb=max(prepared.peak_mb, record.peak_mb),
        seconds=time.monotonic() - began,
    )


def _claim(work: Path, job: JobRecord) -> None:
    """Make the folder this job's, or see that it is."""
    work.mkdir(parents=True, exist_ok=True)
    path = work / "job.json"
    wanted = msgspec.json.encode(job)
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        path.write_bytes(wanted)
        return
    if found != wanted:
        raise IncompatibleJob(
            f"{path} was begun with {found.decode(errors='replace')}, not with {wanted.decode()}: "
            "call it with the former settings to go on, or use another folder"
        )
