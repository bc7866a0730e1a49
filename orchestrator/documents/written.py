"""Times and durations as somebody writes them behind a command."""

from __future__ import annotations

from orchestrator.documents.units import UnitError, duration_ms, timestamp_ms
from orchestrator.errors import InvalidInput


def moment(field: str, text: str | None) -> int | None:
    """A timestamp that a person writes, ms; None if none is written.

    Raises
    ------
    InvalidInput
        It is no time.
    """
    if text is None:
        return None
    try:
        return timestamp_ms(text)
    except UnitError as error:
        raise InvalidInput("command line", field, text, error.problem, error.remedy) from None


def lasting(field: str, text: str | None) -> int | None:
    """A duration that a person writes, ms; None if none is written.

    Raises
    ------
    InvalidInput
        It is none, or nothing.
    """
    if text is None:
        return None
    try:
        found_ms = round(duration_ms(text))
    except UnitError as error:
        raise InvalidInput("command line", field, text, error.problem, error.remedy) from None
    if found_ms < 1:
        raise InvalidInput("command line", field, text, "is less than 1 ms", 'Write "10 min".')
    return found_ms
