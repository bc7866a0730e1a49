"""How long-running work tells its caller what it is doing."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, str], None]
"""Told the step that is under way, in a word or two, and its detail."""


def silent(step: str, detail: str) -> None:
    """Tell nobody."""
