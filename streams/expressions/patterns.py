"""Regular expressions in RE2's syntax: a search takes time linear in the text.

Backtracking engines, as Python's own, may take for ever on a few characters.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streams.vectors.vector import Array

WHOLE = "g0"
"""Name of the whole match."""

_tokens = re.compile(
    r"""
      \\Q.*?(?:\\E|\Z)                                      # characters as they are
    | \\.
    | \[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*\]            # a class; ] may be its first character
    | \(\?(?:P?<[^>]*>)?                                    # a group with a name, or flags
    | .
    """,
    re.DOTALL | re.VERBOSE,
)
"""The parts of a pattern that RE2 takes, by which groups are found."""


class PatternError(ValueError):
    """A pattern that texts cannot be searched for; says why, after the function's name."""


@lru_cache(maxsize=256)
def named(pattern: str) -> tuple[str, int]:
    """The pattern with names for its groups, and their number.

    Groups are called g1, g2 and so on, in the order in which they begin; g0 is the whole match.

    Raises
    ------
    PatternError
        RE2 does not take the pattern; or it has groups with names, or takes characters apart.
    """
    # Alone first: within the brackets of a group, `a)(b` would be whole.
    _compile(pattern, pattern, "match_substring_regex", pc.MatchSubstringOptions)
    made: list[str] = []
    groups = 0
    for token in _tokens.findall(pattern):
        if token == r"\C":
            message = r"has \C in its pattern: \C stands for a byte; write (?s:.) for a character"
            raise PatternError(message)
        if token.endswith(">") and token.startswith("(?"):
            message = (
                f"has a group with a name: groups have numbers, not names: write ( for {token}"
            )
            raise PatternError(message)
        made.append(token)
        if token == "(":
            groups += 1
            made.append(f"?P<g{groups}>")
        elif token.startswith(r"\Q") and not token.endswith(r"\E"):
            made.append(r"\E")
    whole = f"(?P<{WHOLE}>{''.join(made)})"
    found = _compile(pattern, whole, "extract_regex", pc.ExtractRegexOptions)
    assert found.type.num_fields == groups + 1, whole
    return whole, groups


def _compile(
    pattern: str,
    made: str,
    function: str,
    options: type[pc.MatchSubstringOptions | pc.ExtractRegexOptions],
) -> Any:
    """Search an empty text for what was made of a pattern."""
    try:
        return pc.call_function(function, [pa.array([""], pa.string())], options(made))
    except pa.ArrowInvalid as refused:
        if "pattern too large" in str(refused):
            raise PatternError(too_large(pattern)) from None
        raise PatternError(f"has a pattern that RE2 does not take: {pattern}") from None


def too_large(pattern: str) -> str:
    """The message on a pattern that RE2 has no room for."""
    return f"has a pattern of {len(pattern)} characters, which is too large"


def problem(pattern: object, group: object) -> str | None:
    """What is wrong with a pattern and a group of it; None if nothing is."""
    if not isinstance(pattern, str) or not isinstance(group, int):
        return "needs its pattern and its group as literals"
    try:
        _, groups = named(pattern)
    except PatternError as refused:
        return str(refused)
    if not 0 <= group <= groups:
        return f"asks for group {group} of a pattern with {groups} groups"
    return None


def extract(texts: Array, pattern: str, group: int) -> Array:
    """What a group matches in each text, the first time; None where there is no match."""
    whole, _ = named(pattern)
    found = pc.call_function(
        "extract_regex", [pa.array(texts, pa.string())], pc.ExtractRegexOptions(whole)
    )
    return pc.struct_field(found, f"g{group}").to_numpy(zero_copy_only=False)
