"""The computation of functions of texts, and of casts from one type to another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foundation.arrays import BoolArray
from streams.expressions import patterns
from streams.expressions.columnwise import missing, of_each, valid_in_all
from streams.expressions.scalars import to_integer
from streams.vectors.vector import Array, Vector, fillers

_like_parts = re.compile(r"\\.|.", re.DOTALL)
"""Characters of a pattern of LIKE, with the backslash before them."""

_wildcards = {"%": ".*", "_": "."}


MOST_CHARACTERS = 1 << 22
"""Of a text that is put together from others: a few long ones would make one that no memory holds.
Longer ones are NULL."""

_lengths = np.frompyfunc(len, 1, 1)


def _longest(texts: Array) -> int:
    return max(map(len, texts.ravel().tolist()), default=0)


def concatenated(arguments: Sequence[Vector]) -> Vector:
    """Texts one after the other; NULL if that is too long."""
    parts = [argument.values for argument in arguments]
    valid = valid_in_all(arguments)
    if sum(map(_longest, parts)) > MOST_CHARACTERS:
        lengths: Array = np.asarray(sum(map(_lengths, parts)), dtype=np.int64)
        fits: BoolArray = np.less_equal(lengths, MOST_CHARACTERS)
        parts = [np.where(fits, part, "") for part in parts]
        valid = fits if valid is None else fits & valid
    values: Array = parts[0]
    for other in parts[1:]:
        values = np.asarray(values + other, dtype=np.object_)
    return Vector(values, valid)


def _substring(text: str, first: int, length: int) -> str:
    """Characters from the `first`-th on, which counts from 1; those before it do not exist."""
    begin = max(first - 1, 0)
    return text[begin : max(first - 1 + max(length, 0), begin)]


def _rest(text: str, first: int) -> str:
    return text[max(first - 1, 0) :]


def part(text: str, separator: str, number: int) -> str:
    """The `number`-th part, which counts from 1; empty if there are fewer."""
    parts = text.split(separator) if separator else [text]
    return parts[number - 1] if 1 <= number <= len(parts) else ""


def substring(arguments: Sequence[Vector]) -> Vector:
    """Some characters, or all from one on."""
    return _substrings[len(arguments)](arguments)


_substrings = {2: of_each(_rest, "string", 2), 3: of_each(_substring, "string", 3)}


def like(arguments: Sequence[Vector]) -> Vector:
    """Whether texts match a pattern, by RE2: in time linear in the text."""
    texts, patterns = np.broadcast_arrays(*[argument.values for argument in arguments])
    found = np.zeros(texts.shape, dtype=np.bool_)
    for pattern in dict.fromkeys(arguments[1].values.ravel().tolist()):
        these: BoolArray = np.equal(patterns, pattern)
        matching = _matching(pa.array(texts[these], pa.string()), pattern)
        found[these] = matching.to_numpy(zero_copy_only=False)
    return Vector(found, valid_in_all(arguments))


def like_problem(pattern: str) -> str | None:
    """What is wrong with a pattern of LIKE; None if nothing is."""
    try:
        _matching(pa.array([""], pa.string()), pattern)
    except pa.ArrowInvalid:
        # Nothing else can be: what means something to RE2 is escaped.
        return patterns.too_large(pattern)
    return None


def _matching(texts: pa.Array, pattern: str) -> pa.Array:
    if "\\" not in pattern:
        return pc.match_like(texts, pattern)
    # Arrow takes a backslash for itself where the rest is a beginning, an end or a part of a text.
    parts = (
        _wildcards.get(part) or re.escape(part[1:] if len(part) == 2 else part)
        for part in _like_parts.findall(pattern)
    )
    return pc.match_substring_regex(texts, rf"(?s)\A{''.join(parts)}\z")


def lowered(arguments: Sequence[Vector]) -> Vector:
    """Texts with small letters, of ASCII only."""
    return _by_arrow("ascii_lower", arguments)


def raised(arguments: Sequence[Vector]) -> Vector:
    """Texts with capitals, of ASCII only."""
    return _by_arrow("ascii_upper", arguments)


def _by_arrow(function: str, arguments: Sequence[Vector]) -> Vector:
    (values, valid) = arguments[0]
    found = pc.call_function(function, [pa.array(values.ravel(), pa.string())])
    return Vector(found.to_numpy(zero_copy_only=False).reshape(values.shape), valid)


def replaced(text: str, sought: str, other: str) -> str | None:
    """A text with another in the place of one that is sought; None if that is too long."""
    if not sought:
        return text
    growth = len(other) - len(sought)
    if growth > 0 and len(text) + text.count(sought) * growth > MOST_CHARACTERS:
        return None
    return text.replace(sought, other)


def extracted(arguments: Sequence[Vector]) -> Vector:
    """What a group of a pattern matches; NULL where nothing matches."""
    texts, pattern, group = (argument.values for argument in arguments)
    found = patterns.extract(texts.ravel(), str(pattern), int(group)).reshape(texts.shape)
    matched: BoolArray = np.not_equal(found, missing)
    valid = valid_in_all(arguments)
    known = matched if valid is None else matched & valid
    return Vector(np.where(known, found, fillers["string"]), known)


SPACE = " "
"""What `trim` removes, as in SQL: no other white space."""


def trimmed(text: str) -> str:
    """A text without spaces at its ends."""
    return text.strip(SPACE)


def left_trimmed(text: str) -> str:
    """A text without spaces at its beginning."""
    return text.lstrip(SPACE)


def right_trimmed(text: str) -> str:
    """A text without spaces at its end."""
    return text.rstrip(SPACE)


# What has taken digits gives none back: a long text that does not match takes no more time. White
# space is that of ASCII: what Unicode counts as such differs between libraries and their versions.
_whole_number = re.compile(r"\s*([+-]?)(?=[0-9])0*+([0-9]{0,19})\s*", re.ASCII)
_decimal_number = re.compile(
    r"\s*([+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]{1,9})?)\s*", re.ASCII
)


def _text_to_int(text: str) -> int | None:
    found = _whole_number.fullmatch(text)
    if found is None:
        return None
    sign, digits = found.groups()
    number = int(sign + (digits or "0"))
    return number if -(2**63) <= number < 2**63 else None


def _text_to_float(text: str) -> float | None:
    found = _decimal_number.fullmatch(text)
    return float(found[1]) if found is not None else None


def to_int(arguments: Sequence[Vector]) -> Vector:
    """CAST … AS INT."""
    (argument,) = arguments
    if argument.values.dtype == np.object_:
        return _parse_int(arguments)
    if argument.values.dtype == np.bool_:
        return Vector(argument.values.astype(np.int64), argument.valid)
    return _truncated(arguments)


def to_float(arguments: Sequence[Vector]) -> Vector:
    """CAST … AS FLOAT."""
    (argument,) = arguments
    if argument.values.dtype == np.object_:
        return _parse_float(arguments)
    return Vector(argument.values.astype(np.float64), argument.valid)


def to_text(arguments: Sequence[Vector]) -> Vector:
    """CAST … AS STRING."""
    (argument,) = arguments
    return argument if argument.values.dtype == np.object_ else _write(arguments)


def _written_text(value: Any) -> str:
    """A value as the language writes it."""
    return str(value).upper() if isinstance(value, bool) else str(value)


_parse_int = of_each(_text_to_int, "int", 1)
_parse_float = of_each(_text_to_float, "float", 1)
_write = of_each(_written_text, "string", 1)
_truncated = to_integer(np.trunc)
