"""What is wrong with a query, where, and what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class QueryError(ValueError):
    """A query that cannot be understood.

    Attributes
    ----------
    message
        What is wrong, on one line.
    line, column
        Where in the text, both from 1.
    """

    def __init__(self, text: str, offset: int, message: str) -> None:
        before = text[:offset]
        self.message = message
        self.line = before.count("\n") + 1
        self.column = offset - (before.rfind("\n") + 1) + 1
        lines = text.split("\n")
        shown = lines[self.line - 1].replace("\t", " ").rstrip()
        caret = " " * (self.column - 1) + "^"
        place = f"line {self.line}, column {self.column}"
        super().__init__(f"{place}: {message}\n  {shown}\n  {caret}")


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint at the known name most like this one, or at what there is; starts with '; '."""
    names = sorted(set(known))
    by_lower = {candidate.lower(): candidate for candidate in names}
    close = get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    if close:
        return f"; did you mean {by_lower[close[0]]}?"
    if not names:
        return ""
    listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return f"; there is {listed}"
