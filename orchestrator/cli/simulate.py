"""`vivace simulate`: random schedules of faults in the simulated world."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from rich.console import Group, RenderableType
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from orchestrator import api
from orchestrator.cli.arguments import Option
from orchestrator.cli.invocation import (
    EXIT_FAILED,
    FormOption,
    OutputForm,
    ProgressThrottle,
    messages,
    show,
)

SEEDS = 100
"""Schedules that are played unless said otherwise."""

TOLD_S = 30.0
"""How often progress is printed if standard error is no terminal."""


def command(
    seeds: Annotated[
        int | None, Option(min=1, help=f"How many schedules. Default: {SEEDS}.")
    ] = None,
    first: Annotated[
        int | None,
        Option("--from", min=0, help="Seed of the first schedule. Default: 0."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        Option(
            help="Kind of fault to draw from; may be repeated. Default: all, which are crash, "
            "site, pause, replaced, replaced-site, coordinator, store, store-cut, cut, one-way, "
            "connection, delay, slow, disk and clock. Three more are drawn only if they are "
            "named, and clusters keep checkpoints then: everything dies at once, a savepoint is "
            "wanted, and a query-pause."
        ),
    ] = None,
    shape: Annotated[
        list[str] | None,
        Option(help="none, single, several or both; may be repeated. Default: all."),
    ] = None,
    jobs: Annotated[int | None, Option(min=1, help="Processes; default: one a core.")] = None,
    seed: Annotated[
        int | None, Option(min=0, help="Play only this seed, and print its transcript.")
    ] = None,
    schedule: Annotated[
        Path | None, Option(help="Play this schedule (JSON), and print its transcript.")
    ] = None,
    form: FormOption = OutputForm.TABLE,
) -> int:
    """Play random faults on simulated clusters, and check every promise after each schedule.

    A schedule that fails is made smaller, and printed with what happened. The same seed always
    gives the same run. When it is interrupted, it sums up what it has played so far.

    [bold]Example:[/] vivace simulate --seeds 300 --from 1000
    """
    kinds, shapes = kind or [], shape or []
    api.check_faults(kinds, shapes)
    _check_together(
        {"--schedule": schedule, "--seed": seed},
        {"--seeds": seeds, "--from": first, "--jobs": jobs},
        {"--kind": kind, "--shape": shape},
    )
    if seed is not None or schedule is not None:
        played = (
            api.play_file(schedule)
            if schedule is not None
            else api.play_seed(seed or 0, kinds, shapes)
        )
        show(played, form, lambda: Text(played.transcript))
        return EXIT_FAILED if played.findings else 0
    seeds = seeds or SEEDS
    with _Telling(seeds) as telling:
        campaign = api.simulate(seeds, first or 0, kinds, shapes, jobs, telling.tell)
    show(campaign, form, lambda: _view(campaign))
    if campaign.played < campaign.seeds:
        raise KeyboardInterrupt
    return EXIT_FAILED if campaign.failures else 0


def _check_together(
    one: Mapping[str, object], many: Mapping[str, object], drawn: Mapping[str, object]
) -> None:
    """Refuse options that would have no effect beside another one.

    Parameters
    ----------
    one
        The schedule from a file, and the seed of one: options that play a single schedule.
    many
        Options of a series.
    drawn
        Options of what is drawn at random, in a series or from a seed.
    """
    single = _given(one)
    useless = _given(many) if single else []
    if "--schedule" in single:
        useless += [*single[1:], *_given(drawn)]
    if useless:
        raise api.InvalidInput(
            "command line", useless[0], None,
            f"has no effect beside {single[0]}, which plays one schedule",
            "Leave one of them out.",
        )  # fmt: skip


def _given(options: Mapping[str, object]) -> list[str]:
    return [name for name, value in options.items() if value is not None]


class _Telling:
    """How far a campaign has come: a bar with figures, or a line now and then into a file."""

    def __init__(self, seeds: int) -> None:
        self._seeds = seeds
        self._played = self._failed = 0
        self._began_s = time.monotonic()
        self._throttle = ProgressThrottle(TOLD_S)
        columns = TextColumn("[bold]Simulate"), BarColumn(), TextColumn("{task.description}")
        self._bar = Progress(*columns, console=messages(), transient=True)
        self._task = self._bar.add_task(f"0 of {seeds}", total=seeds)

    def __enter__(self) -> _Telling:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def tell(self, verdict: api.TrialVerdict) -> None:
        """Count a verdict; name one that failed."""
        console = self._bar.console
        self._played += 1
        if verdict.failure is not None:
            self._failed += 1
            found = f"seed {verdict.seed}: {verdict.failure.findings[0]}"
            console.print(found, markup=False, soft_wrap=True)
        figures = self._figures()
        self._bar.update(self._task, advance=1, description=figures)
        if not console.is_terminal and self._throttle.lets("played"):
            console.print(figures, soft_wrap=True)

    def _figures(self) -> str:
        rate_s = self._played / max(time.monotonic() - self._began_s, 1e-9)
        left_s = (self._seeds - self._played) / rate_s
        failed = f", [red]{self._failed} failed[/]" if self._failed else ""
        return (
            f"{self._played} of {self._seeds} schedules{failed}, "
            f"{rate_s:.2f} a second, {left_s:.0f} s left"
        )


def _view(campaign: api.Campaign) -> RenderableType:
    parts: list[RenderableType] = []
    for failure in campaign.failures:
        parts.append(Text(failure.transcript))
        replay = msgspec.json.encode(failure.schedule).decode()
        parts.append(Text(f"The schedule above: {replay}\n", style="dim"))
    kept = campaign.played - len(campaign.failures)
    if campaign.played < campaign.seeds:
        parts.append(
            Text(
                f"Interrupted after {campaign.played} of {campaign.seeds} schedules. "
                f"All seeds before {campaign.before_seed} were played."
            )
        )
    if not campaign.played:
        return Group(*parts)
    parts.append(
        Text.assemble(
            ("✗ ", "red") if campaign.failures else ("✓ ", "green"),
            f"{kept} of {campaign.played} schedules kept every promise "
            f"(seeds from {campaign.first_seed}, {campaign.faults} faults, "
            f"{campaign.virtual_s:.0f} virtual s); {campaign.schedules_s:.2f} schedules a second "
            f"on {campaign.processes} processes",
        )
    )
    if campaign.failures:
        seeds = ", ".join(str(failure.seed) for failure in campaign.failures)
        parts.append(Text(f"Failed: {seeds}. One of them again: vivace simulate --seed SEED"))
    return Group(*parts)
