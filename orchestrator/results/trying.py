"""What a query gave on files, without a cluster."""

from __future__ import annotations

from typing import Any

from orchestrator.results.result import Result
from orchestrator.results.verification import EvaluatedAgain, OutputVerdict


class TriedInput(Result, frozen=True, kw_only=True):
    """A stream that was read from a file or a pipe.

    Attributes
    ----------
    source
        The file; `-` for a pipe.
    columns
        Column → type.
    timestamp, timestamp_format
        The column with the timestamp, and how it is written.
    inferred
        Whether all this follows from the first rows, because no manifest describes the stream.
    left_out
        Column of the input that the stream does not have → why not.
    doubtful
        Column taken for text though most of its values are numbers → the first other value.
    tuples
        How many there were.
    """

    stream: str
    source: str
    columns: dict[str, str]
    timestamp: str
    timestamp_format: str
    inferred: bool
    left_out: dict[str, str] = {}
    doubtful: dict[str, str] = {}
    tuples: int = 0


class TriedOutput(Result, frozen=True, kw_only=True):
    """A stream that the query gave.

    Attributes
    ----------
    file
        Where its rows are; None: they are the first rows here, and no others are kept.
    rejected
        Tuples that were left out of it, because the statement fails on them.
    """

    stream: str
    columns: dict[str, str]
    rows: int
    rejected: int = 0
    file: str | None = None
    first_rows: tuple[dict[str, Any], ...] = ()


class TryDocument(Result, frozen=True, kw_only=True):
    """What a query gave, and what it was compared with.

    Attributes
    ----------
    evaluations
        Statement → the way in which the engine evaluates it.
    seconds
        From the first byte of input to the last of output, without the time that loading compiled
        kernels took.
    expected
        Of each output with a file of expected rows, how it compares with them; *archived* are the
        rows that the query gave.
    checked
        Of each output, how it compares with the same computed in Spark SQL; None: nobody asked.
    not_in_sql
        The statements that were not computed in Spark SQL, but evaluated again.
    """

    query: str
    inputs: tuple[TriedInput, ...]
    outputs: tuple[TriedOutput, ...]
    evaluations: dict[str, str]
    seconds: float
    expected: tuple[OutputVerdict, ...] = ()
    checked: tuple[OutputVerdict, ...] | None = None
    not_in_sql: dict[str, EvaluatedAgain] = {}

    @property
    def equal(self) -> bool:
        """Whether all that was compared is equal."""
        compared = (*self.expected, *(self.checked or ()))
        return not any(each.missing or each.unexpected for each in compared)
