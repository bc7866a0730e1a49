"""What the catalogue consists of: papers, their figures, and rows of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Formula(Enum):
    """How a reading follows from the figures of a report, in the order of its keys."""

    VALUE = "value"
    """The only one."""
    PERCENT_OF = "percent of"
    """The first, in per cent of the second."""
    PERCENT_LESS = "percent less"
    """By how many per cent the first is less than the second."""
    MINUS = "minus"
    """The first less the second."""
    PLACE_OF_LEAST = "place of least"
    """The place (`Reading.places`) of the least one that there is; of equal ones the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A figure of ours, as a report gives it.

    Attributes
    ----------
    report
        Its name (`Run.report`).
    keys
        Figures of it.
    places
        Of `PLACE_OF_LEAST`: the place of each key.
    """

    report: str
    keys: tuple[str, ...]
    formula: Formula = Formula.VALUE
    places: tuple[float, ...] = ()

    def of(self, figures: Mapping[str, float]) -> float | None:
        """Its value; None if the report lacks a figure."""
        if self.formula is Formula.PLACE_OF_LEAST:
            found = [
                (figures[key], order, place)
                for order, (key, place) in enumerate(zip(self.keys, self.places, strict=True))
                if key in figures
            ]
            return min(found)[2] if found else None
        if any(key not in figures for key in self.keys):
            return None
        first, *others = (figures[key] for key in self.keys)
        match self.formula, others:
            case Formula.PERCENT_OF, [second]:
                return 100 * first / second
            case Formula.PERCENT_LESS, [second]:
                return 100 * (1 - first / second)
            case Formula.MINUS, [second]:
                return first - second
            case _:
                return first


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One value of a table or a curve.

    Attributes
    ----------
    label, unit
        What it is.
    quoted
        What the paper's text says; None if it gives no number.
    said
        The paper's words, where they are no number.
    ours
        The method or experiment of the paper, reproduced; None if it cannot be.
    vivace
        The same of Vivace's own method, or of its hosts, where these differ.
    """

    label: str
    unit: str = ""
    quoted: float | None = None
    said: str = ""
    ours: Reading | None = None
    vivace: Reading | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A line of a plot: every figure of a report whose key matches.

    Attributes
    ----------
    pattern
        A regular expression of whole keys; its group `x` is the place. Without a group, the only
        figure is a level.
    """

    label: str
    report: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A value that the paper's text gives of a curve."""

    label: str
    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A plot as the paper has one."""

    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]
    quotes: tuple[Quote, ...] = ()
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A table or figure of a paper.

    Attributes
    ----------
    name, title
        As the paper numbers it, and what it shows.
    where
        Section of the paper.
    rests_on
        One sentence: the readings, units and fits that the comparison depends on.
    absent
        Why nothing of it is reproduced; empty if something is.
    """

    name: str
    title: str
    where: str
    rests_on: str
    rows: tuple[Row, ...] = ()
    plots: tuple[Plot, ...] = ()
    absent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """One of the five."""

    name: str
    cited: str
    figures: tuple[Figure, ...]


def value(report: str, key: str) -> Reading:
    """A figure as it is."""
    return Reading(report=report, keys=(key,))


def derived(report: str, formula: Formula, *keys: str) -> Reading:
    """What a formula makes of some figures."""
    return Reading(report=report, keys=keys, formula=formula)


def place_of_least(report: str, key: str, places: tuple[float, ...]) -> Reading:
    """Where the least figure is; `{}` in the key stands for the place."""
    keys = tuple(key.format(f"{place:g}") for place in places)
    return Reading(report=report, keys=keys, formula=Formula.PLACE_OF_LEAST, places=places)
