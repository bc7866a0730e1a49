"""Projection: the SELECT list."""

from __future__ import annotations

from collections.abc import Sequence

from streams.expressions.typed import Typed, evaluator, project
from streams.vectors.vector import Delta


class Project:
    """Evaluates expressions on every row inserted or removed; has no state."""

    def __init__(self, outputs: Sequence[Typed]) -> None:
        self._outputs = tuple(evaluator(output) for output in outputs)

    def step(self, delta: Delta) -> Delta:
        """The change of the projected relation."""
        return Delta(project(self._outputs, delta.rows), delta.inserted, delta.times_ms)
