"""Times, durations and quantities as somebody writes them behind a command."""

from __future__ import annotations

from orchestrator.documents.units import (
    UnitError,
    duration_ms,
    memory_bytes,
    rate_bytes_s,
    timestamp_ms,
)
from orchestrator.errors import InvalidInput
from orchestrator.records.moves import LEAST_STATE_RATE_BYTES_S


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


def size(field: str, text: str | None) -> int | None:
    """A number of bytes that a person writes; None if none is written.

    Raises
    ------
    InvalidInput
        It is no size.
    """
    if text is None:
        return None
    try:
        return memory_bytes(text)
    except UnitError as error:
        raise InvalidInput("command line", field, text, error.problem, error.remedy) from None


def state_rate(field: str, text: str | None) -> float | None:
    """Bytes a second of a state that a person writes; None if none are written.

    Raises
    ------
    InvalidInput
        It is no rate, or too little.
    """
    if text is None:
        return None
    try:
        found = rate_bytes_s(text)
    except UnitError as error:
        raise InvalidInput("command line", field, text, error.problem, error.remedy) from None
    if found < LEAST_STATE_RATE_BYTES_S:
        problem, least = "is too little to bring a state to its end", LEAST_STATE_RATE_BYTES_S / 1e6
        raise InvalidInput("command line", field, text, problem, f"Write {least:g} MB/s or more.")
    return found


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
