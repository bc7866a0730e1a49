"""`python -m bench list`, `run NAME` and `papers`, with the options that `--help` lists."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.papers.command import papers
from bench.registry import Settings, benchmarks, find
from bench.report import ROOT, broken, report, write
from orchestrator.errors import InvalidInput, VivaceError

application = typer.Typer(
    help="Benchmarks; results and plots go to build/bench/NAME.",
    no_args_is_help=True,
    add_completion=False,
)
out = Console()
err = Console(stderr=True)


@application.command("list")
def list_benchmarks() -> None:
    """List the benchmarks."""
    table = Table("benchmark", "what it measures", box=None)
    for benchmark in benchmarks().values():
        table.add_row(benchmark.name, benchmark.summary)
    out.print(table)


@application.command()
def run(
    name: Annotated[str, typer.Argument(help="A name that `list` shows.")],
    json: Annotated[Path | None, typer.Option(help="Also write the report to this file.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer repetitions: does it work at all?")
    ] = False,
    matrix: Annotated[
        Path | None, typer.Option(help="Also measure on this latency table: .npy, .csv or text.")
    ] = None,
    size: Annotated[
        list[int] | None, typer.Option(min=1, help="Measure this size; may be given repeatedly.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Measure this kind only; may be given several times.")
    ] = None,
) -> None:
    """Run a benchmark, print its figures, write report and plots.

    Fails if a figure `correct` or `equal` is not 1, or `violations` not 0.
    """
    try:
        benchmark = find(name)
        if matrix is not None and not benchmark.takes_matrix:
            others = [each.name for each in benchmarks().values() if each.takes_matrix]
            raise _useless("--matrix", str(matrix), name, others)
        if size and not benchmark.takes_sizes:
            others = [each.name for each in benchmarks().values() if each.takes_sizes]
            raise _useless("--size", str(size[0]), name, others)
        for kind in only or []:
            if kind not in benchmark.kinds:
                remedy = f"{name} has: {', '.join(benchmark.kinds) or 'no kinds'}."
                raise InvalidInput("bench", "--only", kind, "is not a kind", remedy)
        folder = ROOT / "build" / "bench" / name
        folder.mkdir(parents=True, exist_ok=True)
        with err.status(name) as status:
            settings = Settings(
                quick=quick,
                folder=folder,
                say=status.update if err.is_terminal else _log,
                matrix=matrix,
                sizes=tuple(size or ()),
                only=tuple(only or ()),
            )
            result = report(name, benchmark.run(settings))
    except VivaceError as error:
        err.print(f"error: {error}", style="red", markup=False, highlight=False)
        raise typer.Exit(error.exit_status) from error
    for path in [folder / f"{name}.json", *([json] if json else [])]:
        write(result, path)
    table = Table("figure", "value", box=None)
    for key, value in result["figures"].items():
        table.add_row(key, f"{value:,.6g}")
    out.print(table)
    out.print(f"written to {folder}", soft_wrap=True)
    if found := broken(result["figures"]):
        err.print(f"error: {'; '.join(found)}", style="red", markup=False, highlight=False)
        raise typer.Exit(1)


@application.command("papers")
def show_papers(
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer repetitions, and no Spark: within five minutes.")
    ] = False,
    reuse: Annotated[
        bool, typer.Option("--reuse", help="Take reports of other commits, where there are any.")
    ] = False,
) -> None:
    """Every table and figure of the five papers, ours beside theirs, as one page."""
    folder = ROOT / "build" / "papers"
    failed = papers(folder, quick=quick, reuse=reuse, say=_log)
    out.print(f"written to {folder / 'index.html'}", soft_wrap=True)
    if failed:
        err.print(f"error: failed: {', '.join(failed)}; see the logs in {folder / 'reports'}")
        raise typer.Exit(1)


def _log(phrase: str) -> None:
    """Tell of progress where no status line can be shown: runs that are cut short leave a log."""
    err.print(f"{datetime.now():%H:%M:%S} {phrase}", markup=False, highlight=False, soft_wrap=True)


def _useless(option: str, value: str, name: str, others: list[str]) -> InvalidInput:
    remedy = f"Leave {option} away, or run one of: {', '.join(others)}."
    return InvalidInput("bench", option, value, f"is of no use to {name}", remedy)


if __name__ == "__main__":
    application(prog_name="python -m bench")
