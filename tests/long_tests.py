"""Tests that take long with most of their parameters."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import pytest


def mostly_long(values: Iterable[Any], quick: int = 1) -> list[Any]:
    """The values of a parameter; with any but the first ones, a test is one of the long ones."""
    rest = iter(values)
    first = list(islice(rest, quick))
    return [*first, *(pytest.param(value, marks=pytest.mark.long) for value in rest)]
