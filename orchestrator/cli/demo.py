"""`vivace demo`: the main job end to end, with an executor killed in the middle."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from orchestrator import api
from orchestrator.cli.arguments import Argument, Option
from orchestrator.cli.invocation import (
    EXIT_FAILED,
    FormOption,
    OutputForm,
    ProgressThrottle,
    messages,
    show,
)
from orchestrator.cli.render.plan import plan_view
from orchestrator.cli.render.verdict import verdict_view


def command(
    example: Annotated[Path, Argument(help="Folder of the example.")] = Path("examples/aircraft"),
    speed: Annotated[
        float | None,
        Option(min=0.001, help="Replay at this multiple of the recorded speed."),
    ] = None,
    json_file: Annotated[
        Path | None, Option("--json-file", help="Also write the verdict here, as JSON.")
    ] = None,
    pictures: Annotated[Path, Option(help="Folder for the map of coordinates.")] = Path(
        "build/demo"
    ),
    form: FormOption = OutputForm.TABLE,
) -> int:
    """Replay an example on real Spark executors, kill one, and check the results.

    [bold]Example:[/] vivace demo --json-file verdict.json
    """
    loaded = api.Example.load(example, speed)
    pictures.mkdir(parents=True, exist_ok=True)
    console = messages()
    work = Path(tempfile.mkdtemp(prefix="vivace-demo-"))
    try:
        with _ended_in_order(), _watched(console) as watched:
            demo = api.Demo(
                loaded,
                on_step=watched.step,
                on_plan=lambda plan, drawn: _show_plan(console, plan, drawn, pictures),
                on_replay=watched.replayed,
            )
            verdict = demo.run(work)
    except BaseException:
        _tell_kept(console, work)
        raise
    if not verdict.failures:
        shutil.rmtree(work, ignore_errors=True)
    if json_file is not None:
        json_file.write_bytes(msgspec.json.format(msgspec.json.encode(verdict), indent=2) + b"\n")
    show(verdict, form, lambda: verdict_view(verdict))
    if verdict.failures:
        _tell_kept(console, work)
        return EXIT_FAILED
    return 0


def _tell_kept(console: Console, work: Path) -> None:
    console.print(f"[yellow]Its logs and archive are kept in {work}[/]", soft_wrap=True)


class _Watched:
    """The demo's progress: a line for each step, and a bar for the replay."""

    def __init__(self, console: Console, bars: Progress) -> None:
        self._console = console
        self._bars = bars
        self._replay = bars.add_task("replay", total=1.0, visible=False)
        self._throttle = ProgressThrottle()

    def step(self, step: str, detail: str) -> None:
        """Print a step."""
        if self._throttle.lets(step):
            self._console.print(
                Text.assemble((f"{step:>12}", "cyan"), f"  {detail}"), soft_wrap=True
            )

    def replayed(self, share: float) -> None:
        """Move the bar."""
        self._bars.update(self._replay, completed=share, visible=True)


@contextmanager
def _watched(console: Console) -> Generator[_Watched]:
    columns = (
        TextColumn("[cyan]{task.description:>12}[/] "),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        yield _Watched(console, bars)


@contextmanager
def _ended_in_order() -> Generator[None]:
    """Have SIGTERM and SIGHUP end the demo as Ctrl-C does, with all that it started."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {n: signal.signal(n, interrupt) for n in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show_plan(
    console: Console, plan: api.PlanDocument, drawn: api.CoordinateMap, pictures: Path
) -> None:
    from orchestrator.cli.render.map import draw

    picture = pictures / "coordinates.png"
    draw(drawn, picture)
    console.print(plan_view(msgspec.structs.replace(plan, map=str(picture))))
