"""How to look for a deadline placement."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from placement.errors import SettingsError
from placement.program import MilpSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverSettings:
    """How to solve.

    Attributes
    ----------
    usage_weight
        What a byte of network usage (bytes/s × s) costs in units of (3), ≥ 0. Small, so that it
        decides between placements that are equally fair.
    milp
        Gap and limits of each program.
    largest
        Choices (operators times candidates) up to which one program is made of the whole, ≥ 0;
        beyond, queries and regions have one each.
    """

    usage_weight: float = 0.0
    milp: MilpSettings = field(default_factory=lambda: MilpSettings(gap=1e-4))
    largest: int = 2000

    def __post_init__(self) -> None:
        if not (math.isfinite(self.usage_weight) and self.usage_weight >= 0):
            raise SettingsError(f"usage_weight {self.usage_weight} is not a number ≥ 0")
        if self.largest < 0:
            raise SettingsError(f"largest {self.largest} is not ≥ 0")
