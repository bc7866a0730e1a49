"""Patterns of timestamps, as C's strptime has them.

Arrow reads the timestamps, Python checks their days. Python knows fewer directives than Arrow: some
are short for others. Arrow reads more than it uses: of a week or a zone's name nothing remains.
"""

from __future__ import annotations

import re

_short_for = {
    "D": "%m/%d/%y",
    "F": "%Y-%m-%d",
    "R": "%H:%M",
    "T": "%H:%M:%S",
    "e": "%d",
    "h": "%b",
    "n": " ",
    "r": "%I:%M:%S %p",
    "t": " ",
}
"""Directives of C that Python does not know."""

_known = {*_short_for, *"aAbBcdHImMpSxXyYz%"}

_with_year = {*"cDFxyY"}

_directive = re.compile("%(.?)", re.DOTALL)


def for_python(pattern: str) -> str:
    """A pattern of C as Python has it.

    Raises
    ------
    ValueError
        Timestamps cannot be read by it, or would all be of one year.
    """
    used: list[str] = _directive.findall(pattern)
    if other := next((each for each in used if each not in _known), None):
        raise ValueError(f"has %{other}, by which no timestamp can be read exactly")
    if "" in used:
        raise ValueError("ends with a %")
    if not _with_year.intersection(used):
        raise ValueError("names no year")
    return _directive.sub(lambda found: _short_for.get(found[1], found[0]), pattern)
