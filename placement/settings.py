"""The planner's settings, in one place."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from placement.errors import SettingsError
from placement.relaxation import RelaxationSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How plans are made.

    Attributes
    ----------
    cpu_scale_ms
        CPU axis: ms that one fully used core counts for (`topology.cpu.linear`).
    operator_load
        Cores that an operator copy is taken to use until it is measured.
    hop_ms
        What a link costs besides its latency: batching, queueing in sockets, serialisation.
    candidates
        Nodes per operator, nearest first, among which a missed deadline is repaired.
    repair_steps
        Placements of a single operator tried in one repair before the best so far is taken.
    relaxation
        δ and F_t of Algorithm 3.
    """

    cpu_scale_ms: float = 10.0
    operator_load: float = 0.2
    hop_ms: float = 2.0
    candidates: int = 8
    repair_steps: int = 20_000
    relaxation: RelaxationSettings = field(default_factory=RelaxationSettings)

    def __post_init__(self) -> None:
        for name in ("cpu_scale_ms", "operator_load", "hop_ms"):
            value: float = getattr(self, name)
            if not math.isfinite(value) or value < 0:
                raise SettingsError(f"{name} {value} is not a number ≥ 0")
        for name in ("candidates", "repair_steps"):
            count: int = getattr(self, name)
            if count < 1:
                raise SettingsError(f"{name} {count} is not ≥ 1")
