"""The CPU scaling function of a cluster's manifest."""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.documents.document import Field, Section
from topology.cpu import Linear, PiecewiseLinear, Power, Queueing, Scaling, ScalingError


def read_scaling(field: Field) -> Scaling:
    """A scaling function by name, with its parameters.

    Raises
    ------
    InvalidInput
        Naming file, line, field and value.
    """
    with field.section() as section:
        return _readers[section.need("function").choice(_readers)](section)


def _power(section: Section) -> Scaling:
    ms_per_core, exponent = section.need("msPerCore"), section.need("exponent")
    try:
        return Power(ms_per_core.number(), exponent=exponent.number())
    except ScalingError as error:
        # A number from 0 on is all that is asked of the other field.
        exponent.refuse(error.problem, "Write 2 to balance peaks, 1 for linear.")


def _table(section: Section) -> Scaling:
    points = section.need("points")
    try:
        return PiecewiseLinear(tuple(_point(item) for item in points.items()))
    except ScalingError as error:
        points.refuse(
            error.problem, "Write [load, ms] with rising loads: [[0, 0], [0.5, 4], [1, 20]]."
        )


def _point(item: Field) -> tuple[float, float]:
    values = item.items()
    if len(values) != 2:
        item.refuse(f"has {len(values)} elements", "Write [load, ms].")
    return values[0].number(), values[1].number()


_readers: dict[str, Callable[[Section], Scaling]] = {
    "linear": lambda section: Linear(section.need("msPerCore").number()),
    "power": _power,
    "queueing": lambda section: Queueing(section.need("ms").number()),
    "table": _table,
}
