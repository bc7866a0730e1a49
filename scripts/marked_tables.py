"""Tables that scripts write into pages of the docs, between comments."""

from __future__ import annotations

import re


def with_table(page: str, name: str, table: str) -> str:
    """The page with another table between `<!-- name -->` and `<!-- end -->`.

    Raises
    ------
    ValueError
        If the page has no place for it, or several.
    """
    marked = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end -->)", re.DOTALL)
    found = marked.findall(page)
    if len(found) != 1:
        raise ValueError(f"{len(found)} tables of {name}, expected one")
    return marked.sub(lambda _: table, page)
