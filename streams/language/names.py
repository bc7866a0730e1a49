"""What names may be, and how statements write them.

A stream and a statement have *plain* names, since these become parts of file names, topics and
paths. A column's name comes with data that others have named, so it may be almost anything. In a
statement, a name that is not plain or is a word of the language stands in double quotes.
"""

from __future__ import annotations

import re

from foundation.bounds import MAX_NAME

RESERVED = frozenset(
    {
        *("SELECT", "DISTINCT", "FROM", "WHERE", "GROUP", "UNION", "AS"),
        *("AND", "OR", "NOT", "IS", "NULL", "TRUE", "FALSE", "CASE"),
    }
)
"""Words that cannot be names without quotes, as in the grammar's NAME."""

PLAIN = "letters, digits and underscores, with no digit in front"
"""What a plain name consists of, in words."""

SEPARATORS = '.,"`'
"""Not in the name of a column: a dot and a comma separate names, in statements and in addresses;
the others surround them, in statements and in SQL."""

COLUMN = (
    f"1 to {MAX_NAME} letters, digits and signs but {' '.join(SEPARATORS)}, with no space at an end"
)
"""What the name of a column consists of, in words."""

_plain = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_plain(name: str) -> bool:
    """Whether a stream may have this name, and a statement."""
    return _plain.fullmatch(name) is not None


def names_column(name: str) -> bool:
    """Whether a column may have this name.

    >>> [names_column(name) for name in ("user-id", "@timestamp", "größe in m", "a.b", " a", "")]
    [True, True, True, False, False, False]
    """
    return (
        0 < len(name) <= MAX_NAME
        and name.isprintable()
        and name == name.strip()
        and not any(sign in name for sign in SEPARATORS)
    )


def written_name(name: str) -> str:
    """A name as it stands in a statement.

    >>> [written_name(name) for name in ("speed", "user-id", "group")]
    ['speed', '"user-id"', '"group"']
    """
    return name if is_plain(name) and name.upper() not in RESERVED else f'"{name}"'
