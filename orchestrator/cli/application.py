"""The command line as typer knows it: it shows help, and says what is wrong with words."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Annotated, Any, Literal

import typer
from typer.exceptions import Abort, TyperException

from orchestrator import api
from orchestrator.cli.arguments import Argument, parameters
from orchestrator.cli.commands import Verb, Verbs
from orchestrator.cli.invocation import EXIT_INTERRUPTED
from orchestrator.cli.verbs import GROUPS, VERBS, group_of, verb_of


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"vivace {version('vivace')}")
        raise typer.Exit


def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_version),
    ] = False,
) -> None:
    """Fault-tolerant stream queries with deadlines, on Spark."""


def application(first: str | None = None) -> typer.Typer:
    """The command line; only one of its verbs or groups, if that is the first word."""
    app = typer.Typer(
        name="vivace",
        cls=Verbs,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(options)
    names = (*VERBS, *GROUPS)
    for name in (first,) if first in names else names:
        if name in GROUPS:
            group = group_of(name)
            below = typer.Typer(cls=Verbs, help=group.HELP)
            for each, verb in group.VERBS.items():
                below.command(each, cls=Verb)(declared(verb))
            app.add_typer(below, name=name)
        else:
            app.command(name, cls=Verb)(declared(verb_of(name)))
    return app


def declared(verb: Callable[..., Any]) -> Callable[..., Any]:
    """A verb with its parameters as typer declares them."""

    @functools.wraps(verb)
    def called(**given: Any) -> Any:
        return verb(**given)

    taken: list[inspect.Parameter] = []
    for each in parameters(verb):
        shown = {name: value for name, value in each.shown.shown.items() if value is not None}
        if isinstance(each.shown, Argument):
            told = typer.Argument(**shown)
        else:
            told = typer.Option(*each.shown.names, envvar=[*each.shown.envvar] or None, **shown)
        literal: Any = Literal
        kind = literal[tuple(each.shown.values)] if each.shown.values else each.annotation
        annotation = Annotated[kind, told]
        taken.append(
            inspect.Parameter(
                each.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=each.default,
                annotation=annotation,
            )
        )
    vars(called).update(__signature__=inspect.Signature(taken))
    return called


def explained(arguments: Sequence[str]) -> int:
    """Run the command with words that may need an explanation; returns the exit status.

    Raises
    ------
    WrongUsage
        No verb takes them.
    """
    try:
        app = application(arguments[0])
        status = app(list(arguments), prog_name="vivace", standalone_mode=False)
    except TyperException as error:
        raise _wrong_usage(arguments, _parsed_message(error)) from None
    except Abort:
        return EXIT_INTERRUPTED
    return status if isinstance(status, int) else 0


class WrongUsage(api.VivaceError):
    """Arguments that no verb takes."""


def _wrong_usage(arguments: Sequence[str], message: str) -> WrongUsage:
    """The message of the parser, and where help is."""
    known = arguments[0] in VERBS or arguments[0] in GROUPS
    verb = f" {arguments[0]}" if known else ""
    below = GROUPS.get(arguments[0], ())
    if len(arguments) > 1 and arguments[1] in below:
        verb += f" {arguments[1]}"
    hint = f"`vivace{verb} --help` {'shows how' if known else 'lists the verbs'}"
    if re.fullmatch(r"(Missing command|No such command '.*')\.", message) and below:
        message = f"{message.rstrip('.')}, one of {', '.join(below)}"
    if message.endswith("?"):
        # It ends with a suggestion.
        return WrongUsage(f"{message} {hint}.")
    return WrongUsage(f"{message.rstrip('.')}; {hint}")


WORDINGS = (
    (r"Input should be a valid integer\b.*", "write a whole number"),
    (r"Input should be a valid number\b.*", "write a number"),
    (r"Input should be greater than or equal to (\S+)", r"write \1 or more"),
    (r"Input should be less than or equal to (\S+)", r"write \1 or less"),
    ("Input should be ", "write "),
    ("Value error, ", ""),
)
"""What the parser says of a value, and how it is said here; the first one that is found counts."""


def _worded(message: str) -> str:
    for theirs, ours in WORDINGS:
        worded, found = re.subn(theirs, ours, message)
        if found:
            return worded
    return message


def _parsed_message(error: TyperException) -> str:
    """The message of the parser, with the value that is wrong.

    The parser says the value only in the error that its message is made of.
    """
    message = _worded(error.format_message())
    given = re.search(r"input_value=(.+), input_type=", str(error.__cause__))
    if given is None or given[1] in message:
        return message
    return message.replace("Invalid value", f"Invalid value {given[1]}", 1)
