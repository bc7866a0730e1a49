"""A function that fails on one value: all known faults of the language's own are mended."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from streams.expressions.columnwise import of_each
from streams.expressions.functions import Function, functions

FATAL = 13
"""`fragile(i)` is i, but for this value, on which it raises."""


class FragileError(ValueError):
    """What it raises."""


def _computed(value: int) -> int:
    if value == FATAL:
        raise FragileError(f"{FATAL} is unlucky")
    return value


@contextmanager
def fragile_function() -> Generator[None]:
    """Have the language know `fragile` meanwhile."""
    kernel = of_each(_computed, "int", 1)
    functions["fragile"] = Function(
        "an int", 1, lambda kinds: "int" if list(kinds) == ["int"] else None, kernel
    )
    try:
        yield
    finally:
        del functions["fragile"]
