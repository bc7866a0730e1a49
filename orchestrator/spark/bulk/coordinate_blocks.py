"""One block's part in an iteration of the coordinates, run on an executor.

A block reads all nodes' coordinates after the iteration before (50 MB for a million nodes), moves
its own nodes and writes its own file: a block Jacobi iteration. What the blocks must agree on, a
few sums, goes back to the driver in a `BlockReport`. Arrays of nodes begin with the block's own
nodes, so `topology.bulk_coordinates` can be told to move only the first ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from orchestrator.embedded.spark_processes import executor_peak_mb
from orchestrator.spark.bulk.block_files import Array, Layout, read_block, read_from, write_block
from topology.bulk_coordinates import BulkCoordinates, with_momentum
from topology.bulk_embedding import Flattening
from topology.bulk_steps import Averaged, relax
from topology.latency_samples import LatencySamples
from topology.spectral_initialisation import Basis, Moments, correlate, mean_squares

MEAN_SQUARE = "mean_square"
ERROR = "error"


class BlockReport(msgspec.Struct, frozen=True, kw_only=True):
    """The sums that a block reports of its nodes; reports of blocks add up.

    Attributes
    ----------
    nodes
        Number of nodes.
    total, products
        Sums of the nodes' vectors or coordinates (`Moments`).
    square_sum
        Sum of the nodes' mean squared round trips, ms².
    error_sum
        Sum of the nodes' error estimates.
    rejected, resets
        Impossible samples; coordinates that stopped being numbers and started over.
    peak_mb
        Peak memory of the executor so far.
    """

    nodes: int = 0
    total: list[float] = []
    products: list[list[float]] = []
    square_sum: float = 0.0
    error_sum: float = 0.0
    rejected: int = 0
    resets: int = 0
    peak_mb: float = 0.0

    @classmethod
    def of(
        cls,
        vectors: Array,
        *,
        square_sum: float = 0.0,
        error_sum: float = 0.0,
        rejected: int = 0,
        resets: int = 0,
    ) -> BlockReport:
        """The report of a block with these vectors."""
        moments = Moments.of(vectors)
        return cls(
            nodes=moments.count,
            total=moments.total.tolist(),
            products=moments.products.tolist(),
            square_sum=square_sum,
            error_sum=error_sum,
            rejected=rejected,
            resets=resets,
            peak_mb=executor_peak_mb(),
        )

    @property
    def moments(self) -> Moments:
        """The sums of vectors as arrays."""
        return Moments(
            count=self.nodes, total=np.array(self.total), products=np.array(self.products)
        )

    def __add__(self, other: BlockReport) -> BlockReport:
        here, there = msgspec.structs.asdict(self), msgspec.structs.asdict(other)
        sums = {name: np.add(value, there[name]).tolist() for name, value in here.items()}
        sums["peak_mb"] = max(self.peak_mb, other.peak_mb)
        return BlockReport(**sums)


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """An iteration, as every block knows it.

    Attributes
    ----------
    samples, before, after
        Folders: the blocks' samples, the previous iteration, this iteration.
    layout
        How nodes are divided into blocks.
    dimensions
        Of the coordinates that are read; in the first iteration, of those that are drawn.
    number
        Number of this iteration. Together with `seed` and the block it determines all random
        draws.
    """

    samples: Path
    before: Path
    after: Path
    layout: Layout
    dimensions: int
    number: int
    seed: int

    def rng(self, block: int) -> np.random.Generator:
        """Randomness of this block in this iteration, however often it is repeated."""
        return np.random.default_rng([self.seed, self.number, block])

    def samples_of(self, block: int, folder: Path | None = None) -> LatencySamples:
        """The samples of a block; nodes are counted from the block's first one on, and round."""
        columns = ["node", "peer", "rtt_ms"]
        nodes, peers, rtt_ms = read_block(folder or self.samples, block, columns)
        start, count = self.layout.start(block), self.layout.nodes
        return LatencySamples(nodes=nodes - start, peers=(peers - start) % count, rtt_ms=rtt_ms)

    def vectors(self, block: int, name: str = "x") -> Array:
        """The block's own vectors in the iteration before, shape (its nodes, dimensions)."""
        columns = read_block(self.before, block, _axes(name, self.dimensions))
        return np.stack(columns, axis=1)

    def all_vectors(self, block: int, column: str) -> tuple[Array, Array]:
        """All nodes' vectors and one more column of the iteration before; this block's first."""
        names = [*_axes("x", self.dimensions), column]
        *columns, last = read_from(self.before, self.layout, block, names)
        return np.stack(columns, axis=1), last

    def write(self, block: int, vectors: dict[str, Array], **columns: Array) -> None:
        """Write the block's file: node, each vector's axes, further columns."""
        start = self.layout.start(block)
        table: dict[str, Array] = {"node": np.arange(start, start + self.layout.size(block))}
        for name, vector in vectors.items():
            table |= dict(zip(_axes(name, vector.shape[1]), vector.T, strict=True))
        write_block(self.after, block, table | columns)


def _axes(name: str, dimensions: int) -> list[str]:
    """Names of a vector's columns."""
    return [f"{name}{axis}" for axis in range(dimensions)]


BlockWork = Callable[[Iteration, int], BlockReport]


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Draw random vectors for the spectral initialisation; take each node's mean square."""

    def __call__(self, iteration: Iteration, block: int) -> BlockReport:
        size = iteration.layout.size(block)
        vectors = iteration.rng(block).normal(size=(size, iteration.dimensions))
        squares = mean_squares(iteration.samples_of(block), size)
        iteration.write(block, {"x": vectors}, mean_square=squares)
        return BlockReport.of(vectors, square_sum=float(squares.sum()))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Correlate:
    """One pass of the spectral initialisation, from the blocks' sums after the last pass."""

    basis: Basis
    grand_mean: float

    def __call__(self, iteration: Iteration, block: int) -> BlockReport:
        size = iteration.layout.size(block)
        before, squares = iteration.all_vectors(block, MEAN_SQUARE)
        correlated = correlate(
            self.basis.vectors(before),
            squares,
            self.grand_mean,
            iteration.samples_of(block),
            size,
        )
        iteration.write(block, {"x": correlated}, mean_square=squares[:size])
        return BlockReport.of(correlated, square_sum=float(squares[:size].sum()))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Relax:
    """One relaxation.

    Attributes
    ----------
    basis
        Turns spectral vectors into positions; for the first relaxation only.
    flattening
        Gives up the spare dimensions; only for the relaxation before which that happens.
    """

    timestep: Averaged
    momentum: float
    basis: Basis | None = None
    flattening: Flattening | None = None

    def __call__(self, iteration: Iteration, block: int) -> BlockReport:
        size = iteration.layout.size(block)
        now = self._placed(iteration, block)
        own = now.first(size)
        moved = relax(
            now,
            iteration.samples_of(block),
            rng=iteration.rng(block),
            timestep=self.timestep,
            movable=size,
        )
        if self.basis is None:
            last_ms = self._flat(iteration.vectors(block, "last"))
            before = BulkCoordinates(positions_ms=last_ms, errors=own.errors)
            moved = with_momentum(before, own, moved, self.momentum)
        vectors = {"x": moved.positions_ms, "last": own.positions_ms}
        iteration.write(block, vectors, error=moved.errors)
        return BlockReport.of(
            moved.positions_ms,
            error_sum=float(moved.errors.sum()),
            rejected=moved.rejected,
            resets=moved.resets,
        )

    def _placed(self, iteration: Iteration, block: int) -> BulkCoordinates:
        if self.basis is not None:
            before, _ = iteration.all_vectors(block, MEAN_SQUARE)
            positions_ms, errors = self.basis.positions_ms(before), np.ones(len(before))
        else:
            positions_ms, errors = iteration.all_vectors(block, ERROR)
        return BulkCoordinates(positions_ms=self._flat(positions_ms), errors=errors)

    def _flat(self, positions_ms: Array) -> Array:
        if self.flattening is None:
            return positions_ms
        return self.flattening.positions_ms(positions_ms)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldOutErrors:
    """For `mapInArrow` after the last iteration: relative errors of held-out samples."""

    iteration: Iteration
    held_out: Path

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for block in batch.column(0).to_pylist():
                positions_ms, own_errors = self.iteration.all_vectors(block, ERROR)
                placed = BulkCoordinates(positions_ms=positions_ms, errors=own_errors)
                errors = placed.relative_errors(self.iteration.samples_of(block, self.held_out))
                yield pa.RecordBatch.from_pydict({"relative_error": errors})
