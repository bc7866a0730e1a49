"""What verbs share that carry out plans of moves."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

from orchestrator import api
from orchestrator.cli.arguments import Option
from orchestrator.cli.invocation import messages

AtATimeOption = Annotated[
    int, Option("--at-a-time", min=1, help="Most fragments that are moved at once.")
]
KeepGoingOption = Annotated[
    bool, Option("--keep-going", help="Make the other moves although one has failed.")
]
ThrottleOption = Annotated[
    str | None,
    Option(
        "--throttle",
        help="Most bytes a second that a host sends of a state that moves, such as 5MB/s; the "
        "cluster's stateRate may say less.",
    ),
]
BeginOption = Annotated[
    str,
    Option(
        "--from",
        metavar="now|beginning|SAVEPOINT",
        help="From where on statements of a changed query read whose state cannot be kept: now, or "
        "the beginning of what can be read again. Or the savepoint with whose states new queries "
        "begin.",
    ),
]
YesOption = Annotated[bool, Option("--yes", help="Do not ask.")]


def beginning(named: str) -> tuple[api.BeginFrom, str]:
    """What `--from` says: from where on statements read, and the savepoint, if it names one."""
    known = {each.value: each for each in api.BeginFrom}
    return (known[named], "") if named in known else (api.BeginFrom.NOW, named)


def no_proposal() -> api.InvalidInput:
    """What to raise if the leader proposes no moves."""
    problem = "the leader proposes no moves at present"
    remedy = "`vivace automation` says whether it looks for any; `vivace rebalance` plans now."
    return api.InvalidInput("command line", "--proposed", None, problem, remedy)


def agreed(question: str, ask: Callable[[str], str] = input) -> bool:
    """Whether somebody at the terminal agrees.

    Raises
    ------
    InvalidInput
        Nobody can be asked.
    """
    if not sys.stdin.isatty():
        problem, remedy = "is missing, and nobody can be asked", "Say --yes, or --dry-run."
        raise api.InvalidInput("command line", "--yes", None, problem, remedy)
    messages().print(f"{question} [y/N] ", end="", markup=False)
    try:
        said = ask("")
    except EOFError:
        # Ctrl-D.
        return False
    return said.strip().lower() in ("y", "yes")
