"""What the parser ran into, in the words of someone who writes queries."""

from __future__ import annotations

from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from streams.language.errors import QueryError
from topology.suggestions import hint as hinted

readable = {
    "NAME": "a name",
    "INT": "a whole number",
    "FLOAT": "a number",
    "STRING": "a string",
    "LPAR": "(",
    "RPAR": ")",
    "LSQB": "[",
    "RSQB": "]",
    "COMMA": ",",
    "SEMICOLON": ";",
    "DOT": ".",
    "PLUS": "+",
    "MINUS": "-",
    "STAR": "*",
    "SLASH": "/",
    "PERCENT": "%",
    "EQUAL": "=",
    "NOT_EQUAL": "<>",
    "LESS": "<",
    "LESS_EQUAL": "<=",
    "GREATER": ">",
    "GREATER_EQUAL": ">=",
    "$END": "the end",
}
"""Terminals whose names are not what one writes."""


def explain_unexpected(text: str, unexpected: UnexpectedInput) -> QueryError:
    """Say what stands where something else should."""
    offset = unexpected.pos_in_stream
    if offset is None or not 0 <= offset <= len(text):
        offset = len(text.rstrip())
    if isinstance(unexpected, UnexpectedToken):
        token = unexpected.token
        ended = token.type == "$END"
        if ended:
            offset = len(text.rstrip())
        found = "the text ends" if ended else f"{str(token)!r} is not expected here"
        expected = set(unexpected.accepts or unexpected.expected)
        keywords = {name for name in expected if name not in readable}
        hint = hinted(str(token), keywords) if not ended else ""
        if hint.startswith("; did you mean"):
            return QueryError(text, offset, found + hint)
        return QueryError(text, offset, f"{found}; expected {_listed(expected)}")
    if isinstance(unexpected, UnexpectedCharacters):
        if text[offset : offset + 1] == "'":
            return QueryError(text, offset, "the string does not end; close it with '")
        expected = set(unexpected.allowed or ()) - {"COMMENT", "WHITESPACE"}
        found = f"{text[offset : offset + 1]!r} is not expected here"
        return QueryError(text, offset, f"{found}; expected {_listed(expected)}")
    return QueryError(text, offset, "the query cannot be understood")


def _listed(terminals: set[str]) -> str:
    words = sorted(readable.get(name, name) for name in terminals)
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" or {words[-1]}"
