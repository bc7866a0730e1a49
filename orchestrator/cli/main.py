"""`vivace`: one verb a file. Each parses, calls the library, renders, and says how it went."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer
from typer.exceptions import Abort, TyperException

from orchestrator import api
from orchestrator.cli import (
    apply,
    cordon,
    delete,
    demo,
    down,
    drain,
    drill,
    history,
    metrics,
    move,
    plan,
    send,
    simulate,
    status,
    switchover,
    tail,
    uncordon,
    up,
    validate,
    verify,
)
from orchestrator.cli.commands import Verb, Verbs
from orchestrator.cli.invocation import EXIT_INTERRUPTED, fail

app = typer.Typer(
    name="vivace",
    cls=Verbs,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

VERBS = (
    ("up", up.command),
    ("down", down.command),
    ("apply", apply.command),
    ("delete", delete.command),
    ("validate", validate.command),
    ("plan", plan.command),
    ("switchover", switchover.command),
    ("move", move.command),
    ("drain", drain.command),
    ("cordon", cordon.command),
    ("uncordon", uncordon.command),
    ("status", status.command),
    ("send", send.command),
    ("tail", tail.command),
    ("verify", verify.command),
    ("history", history.command),
    ("metrics", metrics.command),
    ("demo", demo.command),
    ("simulate", simulate.command),
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"vivace {version('vivace')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_version),
    ] = False,
) -> None:
    """Fault-tolerant stream queries with deadlines, on Spark."""


for name, verb in VERBS:
    app.command(name, cls=Verb)(verb)
app.add_typer(drill.app, name="drill")


class WrongUsage(api.VivaceError):
    """Arguments that no verb takes."""


def _wrong_usage(arguments: Sequence[str], message: str) -> WrongUsage:
    """The message of the parser, and where help is."""
    known = arguments[0] in dict(VERBS) or arguments[0] == "drill"
    verb = f" {arguments[0]}" if known else ""
    if verb == " drill" and len(arguments) > 1 and arguments[1] in drill.NAMES:
        verb += f" {arguments[1]}"
    hint = f"`vivace{verb} --help` {'shows how' if known else 'lists the verbs'}"
    if message == "Missing command.":
        message = f"Missing command, one of {', '.join(drill.NAMES)}"
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


def run(arguments: Sequence[str]) -> int:
    """Run the command with these arguments; returns the exit status."""
    as_json = "--json" in arguments
    if not arguments:
        arguments = ["--help"]
    try:
        status = app(list(arguments), prog_name="vivace", standalone_mode=False)
    except TyperException as error:
        return fail(_wrong_usage(arguments, _parsed_message(error)), as_json)
    except (Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough: `vivace tail … | head`.
        sys.stderr.close()
        return 0
    except Exception as error:  # noqa: BLE001  Everything unforeseen ends in one message.
        return fail(error, as_json)
    return status if isinstance(status, int) else 0


def main() -> None:
    """The command."""
    # What is under way is undone in the same order as on Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
