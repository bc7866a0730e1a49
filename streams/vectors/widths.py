"""How wide rows are taken to be where nobody has measured them."""

from __future__ import annotations

from collections.abc import Mapping

STRING_BYTES = 16
"""Identifiers and call signs with Arrow's offsets; longer texts are rare in sensor streams."""

_type_bytes = {"int": 8, "float": 8, "bool": 1, "string": STRING_BYTES}

TIMESTAMP_BYTES = 8


def row_bytes(columns: Mapping[str, str]) -> int:
    """Expected width of a row."""
    return TIMESTAMP_BYTES + sum(_type_bytes[kind] for kind in columns.values())
