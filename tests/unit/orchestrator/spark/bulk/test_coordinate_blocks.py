"""Blocks of an iteration, one after the other in one process, equal a single computation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from foundation.arrays import FloatArray
from orchestrator.spark.bulk.block_files import Layout, read_from, write_block
from orchestrator.spark.bulk.coordinate_blocks import (
    Begin,
    BlockReport,
    BlockWork,
    Correlate,
    HeldOutErrors,
    Iteration,
    Relax,
)
from topology.bulk_coordinates import BulkCoordinates, with_momentum
from topology.bulk_embedding import Flattening
from topology.bulk_steps import Averaged, relax
from topology.latency_samples import LatencySamples
from topology.spectral_initialisation import Basis, Moments, correlate, mean_squares

LAYOUT = Layout(nodes=50, block_nodes=20)


def samples() -> LatencySamples:
    rng = np.random.default_rng(3)
    nodes = np.repeat(np.arange(50), 6)
    peers = (nodes + rng.integers(1, 50, len(nodes))) % 50
    return LatencySamples(
        nodes=nodes, peers=peers, rtt_ms=rng.uniform(5, 90, len(nodes))
    ).both_ways()


def iteration(folder: Path, number: int, dimensions: int = 3) -> Iteration:
    return Iteration(
        samples=folder / "samples",
        before=folder / str(number - 1),
        after=folder / str(number),
        layout=LAYOUT,
        dimensions=dimensions,
        number=number,
        seed=5,
    )


def run(folder: Path, number: int, work: BlockWork) -> BlockReport:
    reports = [work(iteration(folder, number), block) for block in range(LAYOUT.blocks)]
    return sum(reports[1:], reports[0])


def stacked(folder: Path, number: int, name: str = "x", dimensions: int = 3) -> FloatArray:
    axes = [f"{name}{axis}" for axis in range(dimensions)]
    return np.stack(read_from(folder / str(number), LAYOUT, 0, axes), axis=1)


def test_blocks_do_what_one_process_would(tmp_path: Path) -> None:
    measured = samples()
    for block in range(LAYOUT.blocks):
        own = measured.take(measured.nodes // LAYOUT.block_nodes == block)
        columns = {"node": own.nodes, "peer": own.peers, "rtt_ms": own.rtt_ms}
        write_block(tmp_path / "samples", block, columns)

    report = run(tmp_path, 0, Begin())
    squares = mean_squares(measured, 50)
    assert report.nodes == 50
    np.testing.assert_allclose(report.square_sum, squares.sum())

    basis, drawn = Basis.of(report.moments), stacked(tmp_path, 0)
    report = run(tmp_path, 1, Correlate(basis=basis, grand_mean=report.square_sum / 50))
    whole = correlate(basis.vectors(drawn), squares, float(squares.mean()), measured, 50)
    np.testing.assert_allclose(stacked(tmp_path, 1), whole)

    basis, timestep = Basis.of(report.moments), Averaged()
    run(tmp_path, 2, Relax(timestep=timestep, momentum=0.8, basis=basis))
    start = BulkCoordinates(positions_ms=basis.positions_ms(whole), errors=np.ones(50))
    first = relax(start, measured, rng=np.random.default_rng(), timestep=timestep)
    np.testing.assert_allclose(stacked(tmp_path, 2), first.positions_ms)
    np.testing.assert_allclose(stacked(tmp_path, 2, "last"), start.positions_ms)

    flat = Flattening.of(Moments.of(first.positions_ms), 2)
    flatten = Relax(timestep=timestep, momentum=0.8, flattening=flat)
    report = run(tmp_path, 3, flatten)
    start, first = (
        replace(each, positions_ms=flat.positions_ms(each.positions_ms)) for each in (start, first)
    )
    second = relax(first, measured, rng=np.random.default_rng(), timestep=timestep)
    second = with_momentum(start, first, second, 0.8)
    np.testing.assert_allclose(stacked(tmp_path, 3, dimensions=2), second.positions_ms)
    np.testing.assert_allclose(report.error_sum, second.errors.sum())

    ask = HeldOutErrors(iteration=iteration(tmp_path, 4, 2), held_out=tmp_path / "samples")
    blocks = pa.RecordBatch.from_pydict({"id": [0, 1, 2]})
    batches = list(ask(iter([blocks])))
    errors = np.concatenate([batch.column(0).to_numpy() for batch in batches])
    np.testing.assert_allclose(np.sort(errors), np.sort(second.relative_errors(measured)))


def test_repeated_task_leaves_the_same_file(tmp_path: Path) -> None:
    measured = samples()
    own = measured.take(measured.nodes < LAYOUT.block_nodes)
    columns = {"node": own.nodes, "peer": own.peers, "rtt_ms": own.rtt_ms}
    write_block(tmp_path / "samples", 0, columns)
    path = tmp_path / "0" / "block-00000.parquet"
    files = list[bytes]()
    for _ in range(2):
        Begin()(iteration(tmp_path, 0), 0)
        files.append(path.read_bytes())
    assert files[0] == files[1]
