"""The CPU axis of the coordinate space: load converted to milliseconds (reliable placement, §4.2).

Of two equally near nodes the one with less load should count as nearer. A scaling function of the
user's choice converts CPU load to a latency, which is one more, non-negative axis of the node's
coordinate. The paper leaves the function open. There are four; all are non-negative and never fall
as the load rises:

========  ==================================  ======================================================
function  ms at load c                        use
========  ==================================  ======================================================
linear    ms_per_core · c                     counting operators, or no preference
power     ms_per_core · c^exponent            exponent > 1: balances peaks rather than the sum
queueing  service_ms · ρ/(1 − ρ)              waiting time in M/M/1: the latency that load causes;
                                              ρ = min(c, 0.99)
table     through given points                a measured curve
========  ==================================  ======================================================

Load is in cores, ≥ 0; 1 is one fully used core, which is all that a node's single-threaded host can
use. The functions are plain records, so that the record of a cluster contains them as they are;
numpy is imported where one is computed, since clients read records and compute nothing.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from foundation.arrays import FloatArray

CEILING = 0.99
"""Utilisation above which `Queueing` is constant: a measured load may reach 1, the pole of ρ/(1−ρ).
A node at 99 service times is avoided anyway."""

MAX_EXPONENT = 10.0
"""With a larger exponent `Power` is a step, and powers of large loads would overflow."""


class CpuLoadError(ValueError):
    """A load that is negative or not finite."""


class ScalingError(ValueError):
    """A parameter of a scaling function outside its range.

    Attributes
    ----------
    field, value
        The parameter and its value.
    problem
        The problem with the value.
    """

    def __init__(self, function: str, field: str, value: object, problem: str) -> None:
        super().__init__(f"CPU scaling function {function}: {field} {value} {problem}")
        self.field = field
        self.value = value
        self.problem = problem


def _is_length(value: float) -> bool:
    return math.isfinite(value) and value >= 0


class _Function(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="function"):
    """Base of the scaling functions."""

    def axis_ms(self, load: FloatArray) -> FloatArray:
        """The CPU axis of many nodes.

        Parameters
        ----------
        load
            CPU use, cores, ≥ 0, any shape.

        Returns
        -------
        FloatArray
            Milliseconds ≥ 0, of the same shape.

        Raises
        ------
        CpuLoadError
            If a load is negative or not a number.
        """
        import numpy as np

        possible = np.isfinite(load) & (load >= 0)
        if not np.all(possible):
            value = float(np.asarray(load)[~possible].flat[0])
            raise CpuLoadError(f"CPU load {value} is not a number of cores ≥ 0")
        return self._scaled(load)

    def ms(self, load: float) -> float:
        """The CPU axis of one node; see `axis_ms`."""
        import numpy as np

        return float(self.axis_ms(np.array([load], dtype=np.float64))[0])

    def _scaled(self, load: FloatArray) -> FloatArray:
        raise NotImplementedError

    def _need(self, field: str, possible: bool, problem: str) -> None:
        if not possible:
            function = str(self.__struct_config__.tag)
            raise ScalingError(function, field, getattr(self, field), problem)


class Linear(_Function, frozen=True, tag="linear"):
    """Milliseconds in proportion to the load.

    Parameters
    ----------
    ms_per_core
        Latency equivalent of one fully used core, ms, ≥ 0; 0 ignores the CPU.

    Examples
    --------
    >>> Linear(10).ms(0.25)
    2.5
    """

    ms_per_core: float

    def __post_init__(self) -> None:
        self._need("ms_per_core", _is_length(self.ms_per_core), "is not a number ≥ 0")

    def _scaled(self, load: FloatArray) -> FloatArray:
        return load * self.ms_per_core


class Power(_Function, frozen=True, tag="power"):
    """Milliseconds in proportion to a power of the load.

    Parameters
    ----------
    ms_per_core
        Latency equivalent of one fully used core, ms, ≥ 0.
    exponent
        In (0, `MAX_EXPONENT`]; above 1 further load costs more on a busy node.

    Examples
    --------
    >>> Power(10, exponent=2).ms(0.5)
    2.5
    """

    ms_per_core: float
    exponent: float

    def __post_init__(self) -> None:
        self._need("ms_per_core", _is_length(self.ms_per_core), "is not a number ≥ 0")
        # NaN compares false, so it is rejected here as well.
        possible = 0 < self.exponent <= MAX_EXPONENT
        self._need("exponent", possible, f"is not in (0, {MAX_EXPONENT:g}]")

    def _scaled(self, load: FloatArray) -> FloatArray:
        return self.ms_per_core * load**self.exponent


class Queueing(_Function, frozen=True, tag="queueing"):
    """Mean waiting time of an M/M/1 queue at that utilisation: ms · ρ / (1 − ρ).

    Parameters
    ----------
    service_ms
        Mean service time, ms, ≥ 0: the axis at half load.

    Examples
    --------
    >>> Queueing(5).ms(0.5), round(Queueing(5).ms(0.9))
    (5.0, 45)
    """

    service_ms: float

    def __post_init__(self) -> None:
        self._need("service_ms", _is_length(self.service_ms), "is not a number ≥ 0")

    def _scaled(self, load: FloatArray) -> FloatArray:
        utilisation = load.clip(max=CEILING)
        return self.service_ms * utilisation / (1 - utilisation)


class PiecewiseLinear(_Function, frozen=True, tag="table"):
    """Straight lines through given points; the last line continues beyond the last point.

    Parameters
    ----------
    points
        Pairs of load in cores and ms: at least two, loads rising from 0, ms ≥ 0 and never falling.

    Examples
    --------
    >>> curve = PiecewiseLinear(((0, 0), (0.5, 4), (1, 20)))
    >>> curve.ms(0.25), curve.ms(0.75), curve.ms(1.5)
    (2.0, 12.0, 36.0)
    """

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        self._need("points", len(self.points) >= 2, "has fewer than two points")
        for load, length_ms in self.points:
            numbers = _is_length(load) and _is_length(length_ms)
            self._need("points", numbers, f"has a point {load}, {length_ms} that is not ≥ 0")
        self._need("points", self.points[0][0] == 0, "does not begin at load 0")
        for (load, length_ms), (next_load, next_ms) in pairwise(self.points):
            self._need("points", load < next_load, f"does not rise in load after {load:g}")
            self._need("points", length_ms <= next_ms, f"falls in ms after load {load:g}")

    def _scaled(self, load: FloatArray) -> FloatArray:
        import numpy as np

        points = np.array(self.points, dtype=np.float64)
        loads, lengths_ms = points[:, 0], points[:, 1]
        slope = (lengths_ms[-1] - lengths_ms[-2]) / (loads[-1] - loads[-2])
        beyond_ms = slope * np.maximum(load - loads[-1], 0)
        return np.interp(load, loads, lengths_ms) + beyond_ms


Scaling = Linear | Power | Queueing | PiecewiseLinear

DEFAULT_SCALING = Linear(10.0)
"""A busy core counts as a round trip of 10 ms: less than between the regions of a continent, more
than within one."""
