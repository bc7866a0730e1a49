"""Settings of the deadline placement solver."""

from __future__ import annotations

from dataclasses import dataclass, field

from placement.errors import check_numbers
from placement.program import MilpSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverSettings:
    """How `placement.deadline.solver` solves a problem.

    Attributes
    ----------
    usage_weight
        Cost of one byte of network usage (bytes/s × s) in units of (3), ≥ 0. A small weight
        decides between placements that deviate equally.
    milp
        Gap and limits of each program.
    largest
        Up to this number of choices (operators times candidates) one program covers the whole
        problem, ≥ 0; larger problems are solved query by query and region by region.
    """

    usage_weight: float = 0.0
    milp: MilpSettings = field(default_factory=lambda: MilpSettings(gap=1e-4))
    largest: int = 2000

    def __post_init__(self) -> None:
        check_numbers(self, usage_weight="≥ 0", largest="≥ 0")
