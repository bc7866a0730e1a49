"""What benchmarks there are: a function in this package, decorated, is one.

    @benchmark("failover")
    def failover(settings: Settings) -> Mapping[str, float]:
        '''Longest silence at the sink when an executor is killed.'''

Its modules are imported when benchmarks are looked up, so they import what is heavy (Spark) in
the functions that need it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from foundation.suggestions import nearest
from orchestrator.errors import InvalidInput

Figures = Mapping[str, float]
"""Results under flat dotted keys, units last: `spark.gap_ms_median`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to run a benchmark.

    Attributes
    ----------
    quick
        Fewer repetitions: to see that it works, not to quote.
    folder
        Where plots go; exists.
    say
        Takes a phrase that tells what is being done, for progress.
    matrix
        A file with a latency table of the user's own, for benchmarks that take one.
    sizes
        Problem sizes to measure, for benchmarks that take them; empty: their own.
    only
        The kinds to measure, for benchmarks that have several; empty for all.
    """

    quick: bool
    folder: Path
    say: Callable[[str], None]
    matrix: Path | None = None
    sizes: tuple[int, ...] = ()
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A benchmark that can be run by name."""

    name: str
    summary: str
    run: Callable[[Settings], Figures]
    takes_matrix: bool
    takes_sizes: bool
    kinds: tuple[str, ...] = ()


_registered: dict[str, Benchmark] = {}

Run = Callable[[Settings], Figures]


def benchmark(
    name: str,
    *,
    takes_matrix: bool = False,
    takes_sizes: bool = False,
    kinds: Iterable[str] = (),
) -> Callable[[Run], Run]:
    """Register a function as the benchmark `name`; its docstring's first line describes it.

    Parameters
    ----------
    name
        What it is called on the command line and in `build/bench`.
    takes_matrix
        Whether it uses `Settings.matrix`.
    takes_sizes
        Whether it uses `Settings.sizes`.
    kinds
        What `Settings.only` may name.
    """

    def register(run: Run) -> Run:
        if name in _registered:
            raise ValueError(f"two benchmarks are named {name!r}")
        summary = (run.__doc__ or "").strip().partition("\n")[0]
        _registered[name] = Benchmark(
            name=name,
            summary=summary,
            run=run,
            takes_matrix=takes_matrix,
            takes_sizes=takes_sizes,
            kinds=tuple(kinds),
        )
        return run

    return register


def benchmarks() -> dict[str, Benchmark]:
    """All benchmarks by name, in alphabetical order."""
    package = importlib.import_module(__package__ or "bench")
    for module in pkgutil.iter_modules(package.__path__):
        if module.name != "__main__":
            importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_registered.items()))


def find(name: str) -> Benchmark:
    """The benchmark of a name.

    Raises
    ------
    InvalidInput
        If there is none, with the nearest name there is.
    """
    known = benchmarks()
    if name in known:
        return known[name]
    raise InvalidInput("bench", "name", name, "is not a benchmark", nearest(name, known))
