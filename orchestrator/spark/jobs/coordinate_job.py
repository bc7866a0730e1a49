"""The iterations of the coordinates as Spark jobs, each a task a block: run, recorded, resumed.

`orchestrator.spark.jobs.coordinates` says what lies where and calls this.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from orchestrator.errors import InvalidInput
from orchestrator.spark.jobs.arrow_functions import map_in_arrow
from orchestrator.spark.jobs.block_files import Layout, complete, completed, remove
from orchestrator.spark.jobs.coordinate_blocks import (
    REPORT_SCHEMA,
    Begin,
    BlockReport,
    BlockTask,
    BlockWork,
    Correlate,
    HeldOutErrors,
    Iteration,
    Relax,
)
from orchestrator.spark.jobs.latency_blocks import HELD_OUT_FOLDER, SAMPLES_FOLDER
from topology.bulk_embedding import Flattening, Schedule
from topology.spectral_initialisation import Basis

QUANTILE_ACCURACY = 10_000
"""Of Spark's approximate percentiles: ranks are off by one in so many at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinateSettings:
    """What coordinates are asked for.

    Attributes
    ----------
    dimensions
        Of the latency space, ≥ 1.
    block_nodes
        Nodes a block, ≥ 1. A task holds its block's samples and all nodes' coordinates; there
        should be more blocks than cores.
    schedule
        How long to do what.
    held_out_share
        Share of pairs kept aside to measure the error on, in [0, 1).
    seed
        Of everything drawn, ≥ 0.
    """

    dimensions: int = 4
    block_nodes: int = 62_500
    schedule: Schedule = field(default_factory=Schedule)
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


class IterationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What an iteration came to: its blocks' reports in one; totals over the job so far."""

    report: BlockReport
    rejected: int
    resets: int
    peak_mb: float


@dataclass(frozen=True, slots=True)
class CoordinateJob:
    """The iterations of a job: 0 begins, then the spectral start's, then relaxations."""

    session: SparkSession
    work: Path
    settings: CoordinateSettings
    layout: Layout

    @property
    def iterations(self) -> int:
        """Number of the last one."""
        return self.settings.schedule.start_iterations + self.settings.schedule.iterations

    def last(self) -> tuple[int, IterationRecord | None]:
        """Number and record of the last complete iteration; −1 if there is none."""
        for number in range(self.iterations, -1, -1):
            record = completed(iteration_folder(self.work, number), IterationRecord)
            if record is not None:
                return number, record
        return -1, None

    def run(self, number: int, before: IterationRecord | None) -> IterationRecord:
        """Do an iteration, all blocks."""
        task = BlockTask(iteration=self._iteration(number), work=self._work(number, before))
        remove(task.iteration.after)
        rows = map_in_arrow(self._blocks(), task, REPORT_SCHEMA).collect()
        # In the order of blocks: sums of floats must not depend on which task ends first.
        rows.sort(key=lambda row: row["block"])
        first, *others = (msgspec.json.decode(row["report"], type=BlockReport) for row in rows)
        report = sum(others, first)
        record = IterationRecord(
            report=report,
            rejected=report.rejected + (before.rejected if before else 0),
            resets=report.resets + (before.resets if before else 0),
            peak_mb=max(report.peak_mb, before.peak_mb if before else 0.0),
        )
        complete(task.iteration.after, record)
        return record

    def held_out_errors(self) -> tuple[float, float]:
        """Median and 90th percentile of the relative error on held-out samples."""
        task = HeldOutErrors(
            iteration=self._iteration(self.iterations + 1), held_out=self.work / HELD_OUT_FOLDER
        )
        errors = map_in_arrow(self._blocks(), task, "relative_error double")
        quantiles = sql.percentile_approx("relative_error", [0.5, 0.9], QUANTILE_ACCURACY)
        (row,) = errors.agg(quantiles.alias("quantiles")).collect()
        median, p90 = row["quantiles"]
        return median, p90

    def _blocks(self) -> DataFrame:
        """A row and a partition for each block."""
        return self.session.range(0, self.layout.blocks, 1, self.layout.blocks)

    def _iteration(self, number: int) -> Iteration:
        return Iteration(
            samples=self.work / SAMPLES_FOLDER,
            before=iteration_folder(self.work, number - 1),
            after=iteration_folder(self.work, number),
            layout=self.layout,
            dimensions=self._dimensions(number - 1),
            number=number,
            seed=self.settings.seed,
        )

    def _work(self, number: int, before: IterationRecord | None) -> BlockWork:
        if before is None:
            return Begin()
        schedule = self.settings.schedule
        relaxation = number - schedule.start_iterations - 1
        if relaxation < 0:
            grand_mean = before.report.square_sum / before.report.nodes
            return Correlate(basis=Basis.of(before.report.moments), grand_mean=grand_mean)
        basis = flattening = None
        if relaxation == 0:
            basis = Basis.of(before.report.moments)
        elif relaxation == schedule.coarse_iterations:
            flattening = Flattening.of(before.report.moments, self.settings.dimensions)
        return Relax(
            timestep=schedule.timestep(relaxation),
            momentum=schedule.momentum,
            basis=basis,
            flattening=flattening,
        )

    def _dimensions(self, number: int) -> int:
        """Of the coordinates that an iteration leads to."""
        schedule = self.settings.schedule
        if number > schedule.start_iterations + schedule.coarse_iterations:
            return self.settings.dimensions
        return self.settings.dimensions + schedule.spare_dimensions


def iteration_folder(work: Path, number: int) -> Path:
    """Where the nodes are after so many iterations."""
    return work / f"iteration-{number:05}"
