"""Shared by all verbs: options, output, progress and exit status.

Results go to standard output, progress and errors to standard error. With `-o json` or `-o yaml`
standard output is exactly one document, also when the command fails.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from rich.console import Console, RenderableType
from rich.markup import escape

from orchestrator import api
from orchestrator.cli.arguments import Argument, Option

if TYPE_CHECKING:
    from rich.status import Status

    from vivace.cluster import ClusterClient

EXIT_FAILED = 1
"""Exit status of a drill or demo that was carried out, when something promised did not hold."""

EXIT_INTERRUPTED = 130
"""The status that shells report of a command that Ctrl-C ended."""

PLAIN_WIDTH = 120
"""Columns of tables that go into a file or a pipe."""


class OutputForm(Enum):
    """How a result is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class ListForm(Enum):
    """How a result is printed that lists things by name."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


JSON_WORDS = ("-o", OutputForm.JSON.value)
"""What `--json` is short for."""

FormOption = Annotated[
    OutputForm,
    Option("-o", "--output", help="table, json or yaml; --json is short for -o json."),
]
ListFormOption = Annotated[
    ListForm,
    Option(
        "-o",
        "--output",
        help="table, wide (more columns), json, yaml, or name (nothing else, one a line); "
        "--json is short for -o json.",
    ),
]
ClusterOption = Annotated[
    str | None,
    Option(
        "--context",
        "--cluster",
        envvar=["VIVACE_CONTEXT", "VIVACE_CLUSTER"],
        help="Which cluster, if several are known here; `vivace config list` names them.",
    ),
]
DryRunOption = Annotated[bool, Option("--dry-run", help="Check and plan, but change nothing.")]
WaitOption = Annotated[bool, Option("--wait/--no-wait", help="Wait until it is done.")]
FragmentArgument = Annotated[str, Argument(help="A fragment, with or without its query in front.")]
NodeArgument = Annotated[str, Argument(help="Name of the node.")]
QueryArgument = Annotated[str, Argument(help="Name of the query.")]
FilesOption = Annotated[
    list[Path],
    Option("-f", "--file", help="A manifest, or a folder of them; may be repeated."),
]


OLD_S = 5.0
"""From which age on it is said how old what is shown may be."""


@contextmanager
def connected(context: str | None) -> Generator[ClusterClient]:
    """A cluster for the time of a block; how old its view is, is said if it is old."""
    from vivace.cluster import connect

    client = connect(context=context)
    yield client
    if client.view_age_s > OLD_S:
        messages().print(
            f"[yellow]! This was so {client.view_age_s:.0f} s ago: the cluster's ZooKeeper does "
            "not answer. Data flows on.[/]",
            soft_wrap=True,
        )


def output() -> Console:
    """Where results are shown to people."""
    return _console(stderr=False)


def messages() -> Console:
    """Where progress, remarks and errors are shown."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PLAIN_WIDTH
    return console


def show(
    document: object,
    form: OutputForm | ListForm,
    view: Callable[[], RenderableType],
    names: Callable[[], Iterable[str]] = tuple,
) -> None:
    """Print a verb's result: the document itself, the view of it for people, or its names."""
    if form in (OutputForm.TABLE, ListForm.TABLE, ListForm.WIDE):
        output().print(view())
        return
    if form is ListForm.NAME:
        told = "".join(f"{name}\n" for name in names())
    else:
        told = written(document, form)
    sys.stdout.write(told)
    sys.stdout.flush()


def written(document: object, form: OutputForm | ListForm) -> str:
    """A document as JSON in one line, or as YAML."""
    if form.value == OutputForm.YAML.value:
        return msgspec.yaml.encode(document).decode()
    return msgspec.json.encode(document).decode() + "\n"


def asked_form(words: Sequence[str]) -> OutputForm:
    """How the words of a command want its result printed, whether they are right or not."""
    words = [word.replace("--output=", "-o").replace("--output", "-o") for word in words]
    pairs = zip(words, [*words[1:], ""], strict=True)
    asked = [word[2:] or after for word, after in pairs if word.startswith("-o")]
    # Of `vivace try`, --output is a file.
    forms = {form.value: form for form in OutputForm}
    return next((forms[word] for word in reversed(asked) if word in forms), OutputForm.TABLE)


REPEAT_S = 3.0
"""How often a lasting step is printed again if standard error is no terminal."""


class ProgressThrottle:
    """Lets a step through when it is new, or has gone on for a while."""

    def __init__(self, repeat_s: float = REPEAT_S) -> None:
        self._repeat_s = repeat_s
        self._told: tuple[str, float] = ("", 0.0)

    def lets(self, step: str) -> bool:
        """Whether to tell of the step now."""
        before, at = self._told
        now = time.monotonic()
        if step == before and now - at < self._repeat_s:
            return False
        self._told = (step, now)
        return True


class ProgressLine:
    """A live line with the current step; plain lines if standard error is no terminal.

    Parameters
    ----------
    shown
        Whether there is to be one.
    """

    def __init__(self, title: str, *, shown: bool = True) -> None:
        self._title = title
        self._throttle = ProgressThrottle()
        self._console = messages()
        self._console.quiet = not shown
        live = shown and self._console.is_terminal
        self._status: Status | None = None
        if live:
            from rich.status import Status

            self._status = Status(title, console=self._console)
            self._status.start()

    def tell(self, step: str, detail: str) -> None:
        """Show a step and how far it has come."""
        if self._status is not None:
            from rich.text import Text

            self._status.update(
                Text.assemble((self._title, "bold"), "  ", (step, "cyan"), f"  {detail}")
            )
        elif self._throttle.lets(step):
            self._console.print(f"{step}: {detail}", markup=False, soft_wrap=True)

    def close(self) -> None:
        """Take the line away."""
        if self._status is not None:
            self._status.stop()


@contextmanager
def progress(title: str, *, shown: bool = True) -> Generator[ProgressLine]:
    """A progress line for the time of a block."""
    line = ProgressLine(title, shown=shown)
    try:
        yield line
    finally:
        line.close()


PICTURE_SUFFIXES = (".png", ".svg", ".pdf")


def check_picture(option: str, file: Path) -> None:
    """Refuse a file that no picture can be drawn into.

    Raises
    ------
    InvalidInput
        Its suffix is that of no picture, or its folder does not exist.
    """
    _check_file(option, file, PICTURE_SUFFIXES, "a picture")


def draw_map(client: ClusterClient, file: Path | None, manifests: Sequence[Path] = ()) -> None:
    """Draw the coordinate map into a file, if one is named."""
    if file is not None:
        # matplotlib and numpy take longer to import than most commands take.
        from orchestrator.cli.render.map import draw

        draw(client.coordinate_map(manifests), file)


def check_page(option: str, file: Path) -> None:
    """Refuse a file that no page can be written into; see `check_picture`."""
    _check_file(option, file, (".html",), "a page")


def _check_file(option: str, file: Path, suffixes: Sequence[str], kind: str) -> None:
    problem = remedy = ""
    if file.suffix not in suffixes:
        problem = f"has no suffix of {kind}"
        remedy = f"Name a file that ends in {', '.join(suffixes)}."
    elif not file.absolute().parent.is_dir():
        problem = "is in no existing folder"
        remedy = "Make the folder, or name another one."
    if problem:
        raise api.InvalidInput("command line", option, str(file), problem, remedy)


def fail(error: BaseException, form: OutputForm) -> int:
    """Report why a command failed; the exit status that says so."""
    report = api.error_report(error)
    if form is OutputForm.TABLE:
        messages().print(f"[bold red]error:[/] {escape(report.message)}", soft_wrap=True)
    else:
        show(report.document, form, str)
    return report.exit_status
