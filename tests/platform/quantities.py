"""Quantities of resources: `500m`, `1Gi`."""

from __future__ import annotations

import re
from fractions import Fraction

_quantity = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d+))?")
_suffixes = {"": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6)}
_suffixes |= {"m": Fraction(1, 1000)}
_suffixes |= {name: Fraction(1000**i) for i, name in enumerate("kMGTPE", 1)}
_suffixes |= {f"{name}i": Fraction(1024**i) for i, name in enumerate("KMGTPE", 1)}


def amount(text: object) -> Fraction:
    """How much a quantity is.

    Raises
    ------
    ValueError
        It is none.
    """
    found = _quantity.fullmatch(str(text))
    if found is None:
        raise ValueError(f"{text!r} is no quantity")
    number, suffix, exponent = found.groups()
    return Fraction(number) * (_suffixes[suffix or ""]) * Fraction(10) ** int(exponent or 0)
