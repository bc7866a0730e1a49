"""`vivace simulate`: random schedules of faults in the simulated world."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from orchestrator import api
from orchestrator.cli.invocation import EXIT_FAILED, JsonOption, messages, show


def command(
    seeds: Annotated[int, typer.Option(min=1, help="How many schedules.")] = 100,
    first: Annotated[int, typer.Option("--from", min=0, help="Seed of the first schedule.")] = 0,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Kind of fault to draw from; may be repeated. Default: all."),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(help="single, several, both or none; may be repeated."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; default: one a core.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Play only this seed, and print its transcript.")
    ] = None,
    schedule: Annotated[
        Path | None, typer.Option(help="Play this schedule (JSON), and print its transcript.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Play random faults on simulated clusters, and check every promise after each schedule.

    A schedule that fails is made smaller, and printed with what happened. The same seed always
    gives the same run.

    [bold]Example:[/] vivace simulate --seeds 300 --from 1000
    """
    kinds, shapes = kind or [], shape or []
    if seed is not None or schedule is not None:
        played = (
            api.play_file(schedule)
            if schedule is not None
            else api.play_seed(seed or 0, kinds, shapes)
        )
        show(played, as_json, lambda: Text(played.transcript))
        if played.findings:
            raise typer.Exit(EXIT_FAILED)
        return
    with _progress() as line:
        bar = line.add_task("Simulate", total=seeds, failed="")
        failed = 0

        def tell(verdict: api.TrialVerdict) -> None:
            nonlocal failed
            if verdict.failure is not None:
                failed += 1
                line.console.print(
                    f"seed {verdict.seed}: {verdict.failure.findings[0]}",
                    markup=False,
                    soft_wrap=True,
                )
            line.update(bar, advance=1, failed=f"[red]{failed} failed[/]" if failed else "")

        campaign = api.simulate(seeds, first, kinds, shapes, jobs, tell)
    show(campaign, as_json, lambda: _view(campaign))
    if campaign.failures:
        raise typer.Exit(EXIT_FAILED)


def _progress() -> Progress:
    return Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]}"),
        TimeElapsedColumn(),
        console=messages(),
        transient=True,
    )


def _view(campaign: api.Campaign) -> RenderableType:
    parts: list[RenderableType] = []
    for failure in campaign.failures:
        parts.append(Text(failure.transcript))
        replay = msgspec.json.encode(failure.schedule).decode()
        parts.append(Text(f"The schedule above: {replay}\n", style="dim"))
    last = campaign.first_seed + campaign.seeds - 1
    kept = campaign.seeds - len(campaign.failures)
    parts.append(
        Text.assemble(
            ("✓ " if not campaign.failures else "✗ ", "green" if not campaign.failures else "red"),
            f"{kept} of {campaign.seeds} schedules kept every promise "
            f"(seeds {campaign.first_seed} to {last}, {campaign.faults} faults, "
            f"{campaign.virtual_s:.0f} virtual s); {campaign.schedules_s:.2f} schedules a second "
            f"on {campaign.processes} processes",
        )
    )
    if campaign.failures:
        seeds = ", ".join(str(failure.seed) for failure in campaign.failures)
        parts.append(Text(f"Failed: {seeds}. One of them again: vivace simulate --seed SEED"))
    return Group(*parts)
