"""Suggestions for a name that is not known: the nearest one that is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LEAST_LIKENESS = 0.65
"""Of a name and the one that is meant, 0 … 1: above that of `three` and `other`, whose letters are
alike by chance, and below that of names of three letters of which one is wrong."""

MOST_LISTED = 12
"""Names that a message lists when none is near."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like this one, whatever its case; None when none is near.

    >>> closest("west europ", ["UK South", "West Europe"])
    'West Europe'
    """
    folded = {candidate.casefold(): candidate for candidate in sorted(known)}
    close = difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=LEAST_LIKENESS)
    return folded[close[0]] if close else None


def nearest(name: str, known: Iterable[str]) -> str:
    """A sentence: the nearest known name, or the known names when none is near.

    >>> nearest("deadlin", ["deadline", "name"])
    'Did you mean deadline?'
    """
    names = sorted(set(known))
    if close := closest(name, names):
        return f"Did you mean {close}?"
    return f"Known: {_listed(names)}." if names else "There is none."


def hint(name: str, known: Iterable[str]) -> str:
    """The same as the end of a phrase; empty when nothing is known.

    >>> hint("altitud", ["altitude", "name"])
    '; did you mean altitude?'
    """
    names = sorted(set(known))
    if close := closest(name, names):
        return f"; did you mean {close}?"
    return f"; there is {_listed(names)}" if names else ""


def _listed(names: list[str]) -> str:
    return ", ".join(names[:MOST_LISTED]) + (", …" if len(names) > MOST_LISTED else "")
