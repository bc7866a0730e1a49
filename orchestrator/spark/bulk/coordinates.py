"""Coordinates for a million nodes: the schedule of `topology.bulk_embedding` in blocks on Spark.

Samples are cut into blocks of nodes once (`latency_blocks`). Each iteration is a Spark job with one
task per block (`coordinate_blocks`): the task reads where all nodes are, moves its own nodes and
writes their file. The driver receives one report per block and no coordinates. The work folder:

    job.json              the settings that the job was begun with
    samples/, held-out/   the samples, a Parquet file per block
    index/                the nodes' names, unless nodes are numbered from 0
    iteration-00017/      where the nodes are after 17 iterations, a Parquet file per block

A folder is complete when it holds `_SUCCESS`. A job that is called again with the same folder goes
on after the last complete iteration. The result is the same as without the interruption, because
all randomness derives from seed, iteration and block.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from orchestrator.embedded.spark_processes import driver_peak_mb
from orchestrator.errors import InvalidInput, VivaceError
from orchestrator.spark.arrow_functions import map_in_arrow
from orchestrator.spark.bulk.block_files import Layout, complete, completed, remove
from orchestrator.spark.bulk.coordinate_blocks import (
    ERROR,
    Begin,
    BlockReport,
    BlockWork,
    Correlate,
    HeldOutErrors,
    Iteration,
    Relax,
)
from orchestrator.spark.bulk.latency_blocks import (
    HELD_OUT_FOLDER,
    SAMPLES_FOLDER,
    SamplesRecord,
    named,
    prepare_samples,
)
from topology.bulk_embedding import EmbeddingSteps, Flattening
from topology.spectral_initialisation import Basis

_log = logging.getLogger("vivace.coordinates")

QUANTILE_ACCURACY = 10_000
"""Of Spark's approximate percentiles: ranks are off by one in so many at most."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinateSettings:
    """The coordinates that are asked for.

    Attributes
    ----------
    dimensions
        Of the latency space, ≥ 1.
    block_nodes
        Nodes per block, ≥ 1. A task holds its block's samples and all nodes' coordinates; there
        should be more blocks than cores.
    schedule
        Number and kind of iterations.
    held_out_share
        Share of pairs kept aside to measure the error on, in [0, 1).
    seed
        Of all random draws, ≥ 0.
    """

    dimensions: int = 4
    block_nodes: int = 62_500
    schedule: EmbeddingSteps = field(default_factory=EmbeddingSteps)
    held_out_share: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        for name, count, least in (
            ("dimensions", self.dimensions, 1),
            ("block_nodes", self.block_nodes, 1),
            ("seed", self.seed, 0),
        ):
            if count < least:
                raise InvalidInput("coordinates", name, count, f"is not ≥ {least}", "")
        if not 0 <= self.held_out_share < 1:
            raise InvalidInput(
                "coordinates", "held_out_share", self.held_out_share, "is not in [0, 1)", ""
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCoordinates:
    """Where the coordinates are, and how good they are.

    Attributes
    ----------
    folder
        The work folder.
    samples
        The samples that they were found from.
    iterations, resumed_after
        Iterations in all; how many of them an earlier call had done.
    mean_error
        Mean of the nodes' own error estimates.
    held_out_median, held_out_p90
        Relative error on held-out samples; NaN if none was held out.
    rejected, resets
        Impossible samples; coordinates that stopped being numbers and started over.
    driver_peak_mb, executor_peak_mb
        Peak memory of the driver, and of the executor that took most (see `peak_memory`).
    seconds
        Duration of this call.
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
        files = str(_iteration_folder(self.folder, self.iterations))
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
    _claim(work, msgspec.json.encode({"settings": settings, "nodes": nodes}))
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
    job = _Job(session, work, settings, layout)
    resumed_after, report = job.last()
    for number in range(resumed_after + 1, job.iterations + 1):
        report = job.run(number, report)
        remove(_iteration_folder(work, number - 2))
        error = report.error_sum / report.nodes
        known = f", error estimate {error:.3f}" if error else ""
        say(f"iteration {number} of {job.iterations} of {prepared.nodes:,} nodes{known}")
    assert report is not None
    median, p90 = job.held_out_errors() if prepared.held_out else (math.nan, math.nan)
    return FoundCoordinates(
        folder=work,
        samples=prepared,
        dimensions=settings.dimensions,
        iterations=job.iterations,
        resumed_after=resumed_after,
        mean_error=report.error_sum / report.nodes,
        held_out_median=median,
        held_out_p90=p90,
        rejected=prepared.rejected + report.rejected,
        resets=report.resets,
        driver_peak_mb=driver_peak_mb(),
        executor_peak_mb=max(prepared.peak_mb, report.peak_mb),
        seconds=time.monotonic() - began,
    )


@dataclass(frozen=True, slots=True)
class _Job:
    """The iterations: 0 begins, then the spectral initialisation's, then relaxations."""

    session: SparkSession
    work: Path
    settings: CoordinateSettings
    layout: Layout

    @property
    def iterations(self) -> int:
        """Number of the last iteration."""
        return self.settings.schedule.start_iterations + self.settings.schedule.iterations

    def last(self) -> tuple[int, BlockReport | None]:
        """Number and report of the last complete iteration; −1 if there is none."""
        for number in range(self.iterations, -1, -1):
            report = completed(_iteration_folder(self.work, number), BlockReport)
            if report is not None:
                return number, report
        return -1, None

    def run(self, number: int, before: BlockReport | None) -> BlockReport:
        """Do an iteration, all blocks.

        The result is the sum of the blocks' reports; rejected samples and resets are counted, and
        the peak memory is taken, over all iterations so far.
        """
        iteration, work = self._iteration(number), self._work(number, before)
        remove(iteration.after)
        blocks = self.session.sparkContext.range(self.layout.blocks, numSlices=self.layout.blocks)
        # Reports come in the order of blocks: sums of floats must not depend on who ends first.
        first, *others = blocks.map(lambda block: work(iteration, block)).collect()
        report = sum(others, first)
        if before is not None:
            report = msgspec.structs.replace(
                report,
                rejected=report.rejected + before.rejected,
                resets=report.resets + before.resets,
                peak_mb=max(report.peak_mb, before.peak_mb),
            )
        complete(iteration.after, report)
        return report

    def held_out_errors(self) -> tuple[float, float]:
        """Median and 90th percentile of the relative error on held-out samples."""
        task = HeldOutErrors(
            iteration=self._iteration(self.iterations + 1), held_out=self.work / HELD_OUT_FOLDER
        )
        blocks = self.session.range(0, self.layout.blocks, 1, self.layout.blocks)
        errors = map_in_arrow(blocks, task, "relative_error double")
        quantiles = sql.percentile_approx("relative_error", [0.5, 0.9], QUANTILE_ACCURACY)
        (row,) = errors.agg(quantiles.alias("quantiles")).collect()
        median, p90 = row["quantiles"]
        return median, p90

    def _iteration(self, number: int) -> Iteration:
        return Iteration(
            samples=self.work / SAMPLES_FOLDER,
            before=_iteration_folder(self.work, number - 1),
            after=_iteration_folder(self.work, number),
            layout=self.layout,
            dimensions=self._dimensions_after(number - 1),
            number=number,
            seed=self.settings.seed,
        )

    def _work(self, number: int, before: BlockReport | None) -> BlockWork:
        if before is None:
            return Begin()
        schedule = self.settings.schedule
        relaxation = number - schedule.start_iterations - 1
        if relaxation < 0:
            return Correlate(
                basis=Basis.of(before.moments), grand_mean=before.square_sum / before.nodes
            )
        basis = flattening = None
        if relaxation == 0:
            basis = Basis.of(before.moments)
        elif relaxation == schedule.coarse_iterations:
            flattening = Flattening.of(before.moments, self.settings.dimensions)
        return Relax(
            timestep=schedule.timestep(relaxation),
            momentum=schedule.momentum,
            basis=basis,
            flattening=flattening,
        )

    def _dimensions_after(self, number: int) -> int:
        """Dimensions of the coordinates that an iteration writes."""
        schedule = self.settings.schedule
        if number > schedule.start_iterations + schedule.coarse_iterations:
            return self.settings.dimensions
        return self.settings.dimensions + schedule.spare_dimensions


def _iteration_folder(work: Path, number: int) -> Path:
    """Where the nodes are after so many iterations."""
    return work / f"iteration-{number:05}"


def _claim(work: Path, wanted: bytes) -> None:
    """Make the folder this job's, or see that it is."""
    work.mkdir(parents=True, exist_ok=True)
    path = work / "job.json"
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
