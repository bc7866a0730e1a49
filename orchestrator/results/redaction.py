"""Documents without secrets and without the content of streams, to be shown to others.

Where messages quote tuples, they do so as JSON, or behind one of a few phrases. What follows a
phrase is left out to the end, because an error may quote a value anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

LEFT_OUT = "(left out)"

SECRET_FIELDS = re.compile(
    r"(^|_)(secret|password|passphrase|credentials?|token|sha256|private_key)$", re.IGNORECASE
)
"""Names of fields that hold secrets. Those of files that hold one, such as `token_file`, do not."""

CONTENT_FIELDS = frozenset({"last_rejected", "first_missing", "first_unexpected", "result"})
"""Names of fields that hold the content of streams."""

_quoted = re.compile(
    r"(cannot be evaluated|evaluation failed|tuples rejected|malformed|; last (?:at|after))\b.+",
    re.DOTALL,
)

_tuples = re.compile(r"\[\{.*?(?:\}\]| …|$)", re.DOTALL)

_word = re.compile(r"((?:Bearer|secret|token|password)[ =:]+)[\w.~+/=-]{8,}", re.IGNORECASE)
"""A secret in a text, behind the word for it."""


def redacted(value: Any) -> Any:
    """A document of builtin types without both."""
    if isinstance(value, str):
        return redacted_text(value)
    if isinstance(value, Mapping):
        found = cast(Mapping[str, Any], value)
        return {name: _field(name, each) for name, each in found.items()}
    if isinstance(value, (list, tuple)):
        return [redacted(each) for each in cast(list[Any], value)]
    return value


def redacted_text(text: str) -> str:
    """A line or message without both."""
    text = _quoted.sub(rf"\1 {LEFT_OUT}", text)
    return _word.sub(rf"\1{LEFT_OUT}", _tuples.sub(LEFT_OUT, text))


def _field(name: str, value: Any) -> Any:
    hidden = name in CONTENT_FIELDS or SECRET_FIELDS.search(name)
    return LEFT_OUT if hidden and value is not None else redacted(value)
