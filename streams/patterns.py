"""Regular expressions in RE2's syntax: a search takes time linear in the text.

Backtracking engines, as Python's own, may take for ever on a few characters.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from streams.vector import Array

WHOLE = "g0"
"""Name of the whole match."""


@lru_cache(maxsize=256)
def named(pattern: str) -> tuple[str, int] | None:
    """The pattern with names for its groups, and their number; None if it is not one.

    Groups are called g1, g2 and so on, in the order in which they begin; g0 is the whole match.
    Groups that have a name in the pattern are not supported, nor brackets within a class but as
    its first character.
    """
    made: list[str] = []
    groups = place = 0
    within_class = False
    while place < len(pattern):
        character = pattern[place]
        step = 2 if character == "\\" else 1
        made.append(pattern[place : place + step])
        if within_class:
            # The first character of a class may be a bracket that does not end it.
            within_class = character != "]"
        elif character == "[":
            within_class = True
            while pattern[place + step : place + step + 1] in ("^", "]"):
                made.append(pattern[place + step])
                step += 1
                if made[-1] == "]":
                    break
        elif character == "(" and pattern[place + 1 : place + 2] != "?":
            groups += 1
            made.append(f"?P<g{groups}>")
        place += step
    whole = f"(?P<{WHOLE}>{''.join(made)})"
    try:
        found = pc.call_function(
            "extract_regex",
            [pa.array([""], pa.string())],
            pc.ExtractRegexOptions(whole),
        )
    except pa.ArrowInvalid:
        return None
    return (whole, groups) if found.type.num_fields == groups + 1 else None


def problem(pattern: object, group: object) -> str | None:
    """What is wrong with a pattern and a group of it; None if nothing is."""
    if not isinstance(pattern, str) or not isinstance(group, int):
        return "needs its pattern and its group as literals"
    known = named(pattern)
    if known is None:
        return f"has a pattern that RE2 does not take: {pattern}"
    if not 0 <= group <= known[1]:
        return f"asks for group {group} of a pattern with {known[1]} groups"
    return None


def extract(texts: Array, pattern: str, group: int) -> Array:
    """What a group matches in each text, the first time; None where there is no match."""
    known = named(pattern)
    assert known is not None, pattern
    found = pc.call_function(
        "extract_regex", [pa.array(texts, pa.string())], pc.ExtractRegexOptions(known[0])
    )
    return pc.struct_field(found, f"g{group}").to_numpy(zero_copy_only=False)
