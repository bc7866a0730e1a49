"""The error of a query that cannot be understood, with its place."""

from __future__ import annotations


class QueryError(ValueError):
    """A query that cannot be understood.

    Attributes
    ----------
    message
        The problem, on one line.
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
        # What is no character cannot be printed.
        shown = shown.encode(errors="backslashreplace").decode()
        caret = " " * (self.column - 1) + "^"
        place = f"line {self.line}, column {self.column}"
        super().__init__(f"{place}: {message}\n  {shown}\n  {caret}")
