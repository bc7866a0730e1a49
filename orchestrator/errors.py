"""Errors that the user can do something about.

The exit status tells two families apart: the input is wrong or the request cannot be met (2), or a
service cannot be reached (3). All other exceptions are bugs. Lower layers raise `ValueError`s of
their own; the orchestrator catches them, adds where the value came from and what to do, and raises
one of these errors. Every message fits one paragraph and names the offending value.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EXIT_BUG = 1

EXIT_REFUSED = 2
"""Exit status of a command whose input was refused; nothing was changed."""

EXIT_UNREACHABLE = 3
"""Exit status of a command that could not reach a service it needs."""


EXIT_DRIFTED = 4
"""Exit status of a command whose plan no longer holds; nothing was changed."""


class VivaceError(Exception):
    """Base of the errors that a command reports in one message instead of a traceback.

    Attributes
    ----------
    report
        How another process has reported it; None: it was raised in this one.
    """

    exit_status = EXIT_REFUSED
    report: ErrorReport | None = None


class Cancelled(VivaceError):
    """Somebody wants what is under way to end; raised where it tells its progress."""

    def __init__(self, operation: str, by: str) -> None:
        super().__init__(
            f"operation {operation} was cancelled by {by}. The leader carries on what was "
            "consented to: the history says whether it did."
        )


@dataclass(eq=False)
class InvalidInput(VivaceError):
    """A file holds something that cannot be used.

    Attributes
    ----------
    file
        The file, with the line when known: `query.yaml:12`. Empty if a parameter of an operation
        is meant.
    field
        Dotted name of the field, with the resource in front when it has a name:
        `Query proximity: deadline`. Empty when the file as a whole is meant.
    value
        The offending value, None when there is none (a field is missing, a file malformed).
    problem
        The problem with the value, a phrase: `is not a duration`.
    remedy
        The way to mend it, a sentence: `Write a number and a unit, such as "300 ms".`
    """

    file: str
    field: str
    value: object
    problem: str
    remedy: str

    def __str__(self) -> str:
        subject = "".join(f"{each}: " for each in (self.file, self.field) if each)
        value = "" if self.value is None else f"{_shown(self.value)} "
        return f"{subject}{value}{in_sentences(self.problem, self.remedy)}"


@dataclass(eq=False)
class Refused(VivaceError):
    """A request is well-formed, but no plan can meet it.

    Attributes
    ----------
    subject
        The refused resource: `query proximity`.
    field
        The manifest's field that cannot be met: `recovery`, `deadline`, `outputs`, …
    value
        Its value.
    problem
        The binding constraint, a phrase with its figures.
    remedy
        The change that would help, a sentence.
    figures
        The same figures by name, units last, for `--json`.
    guessed
        Hosts whose latencies matter and are not known well yet: a moment later it may be granted.
    """

    subject: str
    field: str
    value: object
    problem: str
    remedy: str
    figures: Mapping[str, float | str]
    guessed: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """What cannot be met, and why."""
        return f"{self.field} {_shown(self.value)}: {self.problem}"

    def __str__(self) -> str:
        return f"{self.subject} refused: {self.told}. {self.remedy}".rstrip()


class Outdated(Refused):
    """What a request rests on has changed since; nothing was done."""


@dataclass(eq=False)
class Drifted(Outdated):
    """A plan that was reviewed no longer holds; nothing was done.

    Attributes
    ----------
    differences
        What differs, how it was when the plan was made, and how it is.
    """

    exit_status = EXIT_DRIFTED
    differences: tuple[tuple[str, str, str], ...] = ()

    def __str__(self) -> str:
        rows = [("", "was", "is"), *(tuple(each) for each in self.differences)]
        widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
        table = "\n".join(
            f"  {what:{widths[0]}}  {was:{widths[1]}}  {now}".rstrip() for what, was, now in rows
        )
        return f"{self.subject} no longer holds, nothing was changed.\n{table}\n{self.remedy}"


@dataclass(eq=False)
class Unreachable(VivaceError):
    """A service that this process needs does not answer.

    Attributes
    ----------
    what
        Its name: `ZooKeeper`.
    address
        Its address.
    problem
        The problem, a phrase.
    remedy
        The way to mend it, a sentence.
    """

    exit_status = EXIT_UNREACHABLE
    what: str
    address: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what} at {self.address} {self.problem}. {self.remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReport:
    """An error as its message, its exit status, and all of it as a document."""

    message: str
    exit_status: int
    document: dict[str, dict[str, object]]

    @property
    def name(self) -> object:
        """Name of the error's class."""
        return self.document["error"]["type"]


def error_report(error: BaseException) -> ErrorReport:
    """What is told of an error; the traceback of a bug is kept in a file."""
    if isinstance(error, VivaceError):
        if error.report is not None:
            return error.report
        status, message = error.exit_status, str(error)
    else:
        status, name = EXIT_BUG, type(error).__name__
        message = f"{name}: {error}; this is a bug, its traceback is in {_kept(error)}"
    details = {"type": type(error).__name__, "message": message, "exit_status": status}
    document: dict[str, dict[str, object]] = {"error": {**_parts(error), **details}}
    return ErrorReport(message=message, exit_status=status, document=document)


def reported(document: Mapping[str, Any]) -> VivaceError:
    """The error that another process has reported, with the same message and exit status.

    Parameters
    ----------
    document
        What `error_report` has under `error`.
    """
    message, status = str(document["message"]), int(document["exit_status"])
    error = VivaceError(message)
    for kind in (InvalidInput, Refused, Drifted, Unreachable):
        names = {field.name for field in dataclasses.fields(kind)}
        if names <= document.keys():
            error = kind(**{name: document[name] for name in names})
    error.exit_status = status
    error.report = ErrorReport(
        message=message, exit_status=status, document={"error": dict(document)}
    )
    return error


def _parts(error: BaseException) -> dict[str, object]:
    """An error's named parts, such as file, field and value."""
    if not dataclasses.is_dataclass(error):
        return {}
    fields = {field.name: getattr(error, field.name) for field in dataclasses.fields(error)}
    plain = (str, int, float, bool, dict, list, tuple, type(None))
    return {n: value if isinstance(value, plain) else repr(value) for n, value in fields.items()}


def _kept(error: BaseException) -> str:
    """The traceback in a file, and its path; that there is none, where no file can be written."""
    # They take a while to import, and bugs are rare.
    import tempfile
    import traceback

    try:
        handle, path = tempfile.mkstemp(prefix="vivace-bug-", suffix=".log")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(traceback.format_exception(error))
    except OSError as full:
        return f"no file ({full.strerror})"
    return path


def in_sentences(problem: str, remedy: str) -> str:
    """A problem and its remedy, as the end of a message.

    A problem of several lines ends with a caret under a place in the text: no full stop follows.

    >>> in_sentences("is missing", "Add it.")
    'is missing. Add it.'
    """
    if "\n" in problem:
        return f"{problem}\n{remedy}".rstrip()
    return f"{problem}. {remedy}".rstrip()


def _shown(value: object) -> str:
    """A value as the user wrote it, cut to a length that leaves the message readable."""
    text = str(value) if isinstance(value, (int, float)) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
