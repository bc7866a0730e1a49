"""Suggestions for a name that is not known: the nearest one that is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LEAST_LIKENESS = 0.65
"""Of a name and the one that is meant, 0 … 1: above that of `three` and `other`, whose letters are
alike by chance, and below that of names of three letters of which one is wrong."""

NEAR_NAMES = 8
"""Names of such a likeness of which the edits are counted."""

LEAST_ABBREVIATION = 3
"""Letters with which a name begins that is meant by them alone."""

MOST_LISTED = 12
"""Names that a message lists when none is near."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like this one, whatever its case; None when none is near.

    >>> closest("west europ", ["UK South", "West Europe"])
    'West Europe'
    """
    folded = {candidate.casefold(): candidate for candidate in sorted(known)}
    given = name.casefold()
    close = difflib.get_close_matches(given, list(folded), n=NEAR_NAMES, cutoff=LEAST_LIKENESS)
    return next((folded[each] for each in close if _may_be_meant(given, each)), None)


def _may_be_meant(name: str, candidate: str) -> bool:
    """Whether a slip makes a name of another one: an abbreviation, or few wrong letters.

    A short name shares most of its letters, in order, with many longer ones.

    >>> [_may_be_meant(name, "min") for name in ("mni", "minn", "median")]
    [True, True, False]
    """
    if len(name) >= LEAST_ABBREVIATION and candidate.startswith(name):
        return True
    return _edits(name, candidate) <= max(max(len(name), len(candidate)) // 3, 1)


def _edits(one: str, other: str) -> int:
    """Letters to insert, leave out, replace or swap with the next one (optimal alignment)."""
    before, last = list[int](), list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        now = [row]
        for column, another in enumerate(other, 1):
            least = min(last[column] + 1, now[-1] + 1, last[column - 1] + (letter != another))
            swapped = row > 1 and column > 1 and one[row - 2 : row] == another + other[column - 2]
            now.append(min(least, before[column - 2] + 1) if swapped else least)
        before, last = last, now
    return last[-1]


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence: the nearest known name, or the known names when none is near.

    >>> nearest("deadlin", ["deadline", "name"])
    'Did you mean deadline?'
    """
    names = sorted(set(known))
    if close := closest(name, names):
        return f"Did you mean {close}?"
    return f"Known: {_listed(names)}." if names else "There is none."


def hint(name: str, known: Iterable[str], most: int = MOST_LISTED) -> str:
    """The same as the end of a phrase; empty when nothing is known.

    >>> hint("altitud", ["altitude", "name"])
    '; did you mean altitude?'
    """
    names = sorted(set(known))
    if close := closest(name, names):
        return f"; did you mean {close}?"
    return f"; there is {_listed(names, most)}" if names else ""


def _listed(names: list[str], most: int = MOST_LISTED) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
