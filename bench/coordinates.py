"""Benchmark `coordinates`: how well network coordinates predict round trips, and how fast.

On each network, nodes find their coordinates by Vivaldi, from measurements of random peers:

1. *Search* follows the protocol of `topology.vivaldi`, as hosts do: in each round every node
   measures one peer and moves at once. The noise of single samples moves nodes out of local minima.
2. *Settle*: every node measures a few peers a round and moves by all of these samples together
   (`Averaged`), by ever smaller steps. This is done three times on the same measurements, with
   weights for absolute stretches, for relative ones and in between (rtt exponent 0, 2, 1), since it
   depends on the network which of them has the least error. The result is the one with the least
   error on its last measurements, each taken before it moved a node. No other entry of the table
   is used.

The yardstick is the best embedding of the same number of dimensions (`bench.best_embedding`), made
from the whole table at once, under the same three weights. Compared is the relative error
|distance − rtt| / rtt over all pairs. `live_median_relative_error` is the error of the protocol
without settling, after as many measurements: the error that hosts have at any time.
`paper_median_relative_error` is the error of Algorithm 2 of reliable placement as printed
(`topology.pairwise`), where a node fits each measurement completely before it takes the next.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from bench import million
from bench.best_embedding import Embedding, RelativeErrors, best, relative_errors
from bench.networks.backbones import backbone
from bench.networks.generators import TransitStub, transit_stub
from bench.networks.matrix_files import read_matrix
from bench.registry import Settings, benchmark
from foundation.arrays import FloatArray
from orchestrator.errors import InvalidInput
from topology.bulk_coordinates import BulkCoordinates, unplaced
from topology.bulk_steps import Averaged, Timestep, relax
from topology.latency import LatencyMatrixError
from topology.latency_samples import LatencySamples
from topology.pairwise import fit_sample
from topology.vivaldi import AdaptiveTimestep, ConstantTimestep

DIMENSIONS = 3
"""The number that hosts use."""

BACKBONE = "backbone/europe"
"""375 cities, with sea cables."""

RUNS = 5
QUICK_RUNS = 2
"""Number of generated networks, or of runs on a given network."""

SEARCH_ROUNDS, SETTLE_ROUNDS = 1_000, 250
QUICK_SEARCH_ROUNDS, QUICK_SETTLE_ROUNDS = 500, 125

PAPER_ROUNDS, QUICK_PAPER_ROUNDS = 100, 10
"""Rounds of Algorithm 2 as printed. More rounds change nothing, since each measurement replaces the
one before."""

SETTLE_PEERS = 8
"""Peers that a node measures in a round of settling."""

LATE_SHARE = 0.1
"""Share of the rounds of settling, the last ones, whose errors decide between the weights."""

GAIN, LEAST_GAIN = 0.5, 0.01
"""Fraction of a stretch that is corrected at once: in searching, and at the end of settling."""

RTT_EXPONENTS = (0.0, 1.0, 2.0)

RANDOM_STARTS = 3
RANDOM_STARTS_UP_TO = 500
"""Largest network on which the yardstick also starts at random; on larger ones a start takes
minutes."""

SPEED_NODES = 200_000
SPEED_SAMPLES = 1_000_000
SPEED_S = 5.0
QUICK_SPEED_S = 0.5
"""Network, batch and duration of the count of updates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Errors on one network.

    Attributes
    ----------
    found
        Errors of the coordinates.
    live
        Errors of the protocol alone, with the timestep `AdaptiveTimestep`.
    paper
        Errors of Algorithm 2 as printed.
    yardstick
        The best embedding of the same number of dimensions.
    """

    found: RelativeErrors
    live: RelativeErrors
    paper: RelativeErrors
    yardstick: Embedding

    @property
    def ratio(self) -> float:
        """Median error divided by that of the yardstick."""
        return self.found.median / self.yardstick.errors.median


@benchmark("coordinates", takes_matrix=True)
def coordinates(settings: Settings) -> Mapping[str, float]:
    """Error of network coordinates against the best embedding of their rank; updates per second."""
    # Invalid input is refused before the long part begins.
    own = None if settings.matrix is None else read_own(settings.matrix)
    count = QUICK_RUNS if settings.quick else RUNS
    networks = {
        "transit_stub": [
            transit_stub(TransitStub(), np.random.default_rng(seed)).rtt_ms
            for seed in range(1, count + 1)
        ],
        "backbone": [backbone(BACKBONE).rtt_ms] * count,
    }
    if own is not None:
        networks["matrix"] = [own] * count
    runs = {name: measure(name, tables, settings) for name, tables in networks.items()}
    flat = {key: value for name in runs for key, value in figures(name, runs[name]).items()}
    plot(runs, settings.folder / "relative_errors.png")
    flat |= speeds(settings)
    return flat | million.measure(settings)


def read_own(path: Path) -> FloatArray:
    """Round trips of the user's file.

    Raises
    ------
    InvalidInput
        If it cannot be read or holds no latency matrix.
    """
    try:
        return read_matrix(path.read_bytes(), path.name).rtt_ms
    except OSError as error:
        problem = f"cannot be read: {error.strerror or error}"
        raise InvalidInput("bench", "--matrix", str(path), problem, "Give a file.") from None
    except LatencyMatrixError as error:
        problem, remedy = (
            f"holds no latency matrix: {error}",
            "Formats: bench/networks/matrix_files.py.",
        )
        raise InvalidInput("bench", "--matrix", str(path), problem, remedy) from None


def measure(name: str, tables: Sequence[FloatArray], settings: Settings) -> list[Run]:
    """Errors on each table; equal tables share their yardstick."""
    search = QUICK_SEARCH_ROUNDS if settings.quick else SEARCH_ROUNDS
    settle = QUICK_SETTLE_ROUNDS if settings.quick else SETTLE_ROUNDS
    paper = QUICK_PAPER_ROUNDS if settings.quick else PAPER_ROUNDS
    runs = list[Run]()
    for number, rtt_ms in enumerate(tables, start=1):
        settings.say(f"{name}: {number} of {len(tables)}, {len(rtt_ms)} nodes")
        rng = np.random.default_rng(number)
        if runs and rtt_ms is tables[0]:
            yardstick = runs[0].yardstick
        else:
            few = len(rtt_ms) <= RANDOM_STARTS_UP_TO and not settings.quick
            starts = RANDOM_STARTS if few else 0
            yardstick = best(rtt_ms, DIMENSIONS, rng, random_starts=starts)
        network = Network(rtt_ms, rng)
        live = network.searched(search + settle * SETTLE_PEERS, AdaptiveTimestep())
        found = network.settled(network.searched(search, AdaptiveTimestep(gain=GAIN)), settle)
        paper_rng = np.random.default_rng([number, paper])
        printed_ms = Network(rtt_ms, paper_rng).by_paper(paper)
        runs.append(
            Run(
                found=relative_errors(rtt_ms, found.positions_ms),
                live=relative_errors(rtt_ms, live.positions_ms),
                paper=relative_errors(rtt_ms, printed_ms),
                yardstick=yardstick,
            )
        )
    return runs


class Network:
    """Nodes that measure each other.

    Parameters
    ----------
    rtt_ms
        Shape (n, n), NaN = unknown; such pairs do not measure each other.
    rng
        Draws peers, and directions of nodes at one point.
    """

    def __init__(self, rtt_ms: FloatArray, rng: np.random.Generator) -> None:
        self._rtt_ms = rtt_ms
        self._rng = rng
        nodes, self._peers = np.nonzero(rtt_ms > 0)
        self._degrees = np.bincount(nodes, minlength=len(rtt_ms))
        self._first = np.cumsum(self._degrees) - self._degrees

    def samples(self, count: int) -> LatencySamples:
        """Measurements of `count` random peers by every node."""
        nodes = np.arange(len(self._rtt_ms)).repeat(count)
        peers = self._peers[self._first[nodes] + self._rng.integers(self._degrees[nodes])]
        return LatencySamples(nodes=nodes, peers=peers, rtt_ms=self._rtt_ms[nodes, peers])

    def searched(self, rounds: int, timestep: AdaptiveTimestep) -> BulkCoordinates:
        """Coordinates that the protocol finds from position zero."""
        placed = unplaced(len(self._rtt_ms), DIMENSIONS)
        for _ in range(rounds):
            placed = relax(placed, self.samples(1), rng=self._rng, timestep=timestep)
        return placed

    def by_paper(self, rounds: int) -> FloatArray:
        """Positions that Algorithm 2 finds as printed, shape (n, `DIMENSIONS`), ms.

        In each round every node, one after the other, fits one measurement until e < e_t.
        """
        timestep = ConstantTimestep()
        positions_ms = np.zeros((len(self._rtt_ms), DIMENSIONS))
        for _ in range(rounds):
            drawn = self.samples(1)
            for node, peer, rtt_ms in zip(drawn.nodes, drawn.peers, drawn.rtt_ms, strict=True):
                mine_ms, peer_ms = positions_ms[node], positions_ms[peer]
                positions_ms[node] = fit_sample(
                    rtt_ms, mine_ms, peer_ms, timestep=timestep, rng=self._rng
                )
        return positions_ms

    def settled(self, start: BulkCoordinates, rounds: int) -> BulkCoordinates:
        """Coordinates at rest, under the weights with the least error on the last measurements."""
        placed = dict.fromkeys(RTT_EXPONENTS, start)
        late: dict[float, list[FloatArray]] = {exponent: [] for exponent in RTT_EXPONENTS}
        for number in range(rounds):
            samples = self.samples(SETTLE_PEERS)
            gain = max(GAIN * (1 - number / rounds), LEAST_GAIN)
            for exponent, now in placed.items():
                if number >= (1 - LATE_SHARE) * rounds:
                    late[exponent].append(now.relative_errors(samples))
                timestep = Averaged(gain=gain, rtt_exponent=exponent)
                placed[exponent] = relax(now, samples, rng=self._rng, timestep=timestep)
        errors = {exponent: np.median(np.concatenate(each)) for exponent, each in late.items()}
        return placed[min(RTT_EXPONENTS, key=errors.__getitem__)]


def figures(name: str, runs: Sequence[Run]) -> dict[str, float]:
    """Means over runs, and the worst ratio."""
    each = {
        "median_relative_error": [run.found.median for run in runs],
        "p90_relative_error": [run.found.p90 for run in runs],
        "live_median_relative_error": [run.live.median for run in runs],
        "paper_median_relative_error": [run.paper.median for run in runs],
        "mds_median_relative_error": [run.yardstick.errors.median for run in runs],
        "mds_p90_relative_error": [run.yardstick.errors.p90 for run in runs],
        "ratio_to_mds": [run.ratio for run in runs],
    }
    means = {f"{name}.{key}": float(np.mean(values)) for key, values in each.items()}
    return means | {f"{name}.ratio_to_mds_max": max(run.ratio for run in runs)}


def speeds(settings: Settings) -> dict[str, float]:
    """Samples per second by the protocol and averaged, on one core."""
    ways: dict[str, Timestep] = {
        "updates_per_s": AdaptiveTimestep(),
        "averaged_updates_per_s": Averaged(),
    }
    duration_s = QUICK_SPEED_S if settings.quick else SPEED_S
    rates = dict[str, float]()
    for key, timestep in ways.items():
        settings.say(f"updates per second: {timestep}")
        rates[key] = updates_per_s(timestep, duration_s)
    return rates


def updates_per_s(timestep: Timestep, duration_s: float) -> float:
    """Samples per second that `relax` processes, for nodes scattered in space."""
    rng = np.random.default_rng(1)
    places_ms = rng.uniform(0, 100, size=(SPEED_NODES, DIMENSIONS))
    nodes = np.arange(SPEED_SAMPLES) % SPEED_NODES
    peers = (nodes + rng.integers(1, SPEED_NODES, size=SPEED_SAMPLES)) % SPEED_NODES
    rtt_ms = np.linalg.norm(places_ms[nodes] - places_ms[peers], axis=1)
    samples = LatencySamples(nodes=nodes, peers=peers, rtt_ms=rtt_ms)
    placed: BulkCoordinates = unplaced(SPEED_NODES, DIMENSIONS)
    taken, start = 0, time.perf_counter()
    while (elapsed_s := time.perf_counter() - start) < duration_s:
        placed = relax(placed, samples, rng=rng, timestep=timestep)
        taken += len(samples)
    return taken / elapsed_s


def plot(runs: Mapping[str, Sequence[Run]], path: Path) -> None:
    """Share of pairs up to each relative error, for the coordinates found and the yardstick."""
    from matplotlib.figure import Figure

    # Through Any, for matplotlib's annotations leave keyword arguments open.
    figure = cast("Any", Figure(figsize=(6, 4), layout="constrained"))
    axes = figure.subplots()
    for number, (name, several) in enumerate(runs.items()):
        curves = {
            "-": ("Vivaldi", [run.found for run in several]),
            ":": ("best embedding", [run.yardstick.errors for run in several]),
        }
        for style, (method, errors) in curves.items():
            every = np.sort(np.concatenate([one.each for one in errors]))
            share = np.linspace(0, 1, 500)
            label = f"{name.replace('_', '-')}, {method}"
            at = np.quantile(every, share)
            axes.plot(at, 100 * share, style, color=f"C{number}", label=label)
    axes.set_xscale("log")
    axes.set_xlim(1e-3, 10)
    axes.set_ylim(0, 100)
    axes.set_xlabel(f"relative error of the distance ({DIMENSIONS} dimensions)")
    axes.set_ylabel("pairs at or below, %")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=150)
