"""What can go wrong that a person can do something about.

Three families, told apart by exit status: what was asked for is wrong or cannot be had (2), what
is needed cannot be reached (3), and everything else, which is a bug and not in here. Lower layers
raise `ValueError`s of their own; the orchestrator adds where the value came from and what to do,
and raises one of these. Every message fits one paragraph and names the offending value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

EXIT_REFUSED = 2
"""Exit status of a command whose input was refused; nothing was changed."""

EXIT_UNREACHABLE = 3
"""Exit status of a command that could not reach what it needs."""


class VivaceError(Exception):
    """Base of everything a command reports in one message instead of a traceback."""

    exit_status = EXIT_REFUSED


@dataclass(eq=False)
class InvalidInput(VivaceError):
    """A file says something that cannot be used.

    Attributes
    ----------
    file
        Where it was read, with the line when known: `query.yaml:12`.
    field
        Dotted name of the field, with the resource in front when it has a name:
        `Query proximity: deadline`. Empty when the file as a whole is meant.
    value
        The offending value, None when there is none (a field is missing, a file malformed).
    problem
        What is wrong with it, a phrase: `is not a duration`.
    remedy
        What to do, a sentence: `Write a number and a unit, such as "300 ms".`
    """

    file: str
    field: str
    value: object
    problem: str
    remedy: str

    def __str__(self) -> str:
        subject = f"{self.field}: " if self.field else ""
        value = "" if self.value is None else f"{_shown(self.value)} "
        return f"{self.file}: {subject}{value}{self.problem}. {self.remedy}".rstrip()


@dataclass(eq=False)
class Refused(VivaceError):
    """What was asked for is well-formed, but no plan can give it.

    Attributes
    ----------
    subject
        What is refused: `query proximity`.
    field
        The manifest's field that stands in the way: `recovery`, `deadline`, `outputs`, …
    value
        Its value.
    problem
        The binding constraint, a phrase with its figures.
    remedy
        What to change, a sentence.
    figures
        The same figures by name, units last, for `--json`.
    """

    subject: str
    field: str
    value: object
    problem: str
    remedy: str
    figures: Mapping[str, float | str]

    def __str__(self) -> str:
        return (
            f"{self.subject} refused: {self.field} {_shown(self.value)}: {self.problem}. "
            f"{self.remedy}"
        ).rstrip()


class Unreachable(VivaceError):
    """Something this process needs does not answer.

    Parameters
    ----------
    what
        Its name: `ZooKeeper`.
    address
        Where it was looked for.
    problem
        What happened, a phrase.
    remedy
        What to do, a sentence.
    """

    exit_status = EXIT_UNREACHABLE

    def __init__(self, what: str, address: str, problem: str, remedy: str) -> None:
        super().__init__(f"{what} at {address} {problem}. {remedy}")
        self.what = what
        self.address = address
        self.problem = problem
        self.remedy = remedy


def _shown(value: object) -> str:
    """A value as its owner wrote it, cut to a length that leaves the message readable."""
    text = str(value) if isinstance(value, (int, float)) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
