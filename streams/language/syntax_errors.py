"""Syntax errors in the words of someone who writes queries."""

from __future__ import annotations

import re

from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from foundation.suggestions import closest
from streams.language.errors import QueryError
from streams.language.names import RESERVED

readable = {
    "NAME": "a name",
    "INT": "a whole number",
    "FLOAT": "a number",
    "STRING": "a string",
    "LPAR": "an opening parenthesis",
    "RPAR": "a closing parenthesis",
    "LSQB": "a window in brackets",
    "RSQB": "']'",
    "COMMA": "a comma",
    "SEMICOLON": "a semicolon",
    "DOT": "a dot",
    "STAR": "*",
    "GROUP": "GROUP BY",
    "PARTITION": "PARTITION BY",
    "REGISTER": "REGISTER QUERY",
    "$END": "the end",
}
"""Terminal → its words in a message, if they are not its name."""

SIGNS = readable.keys() - {"GROUP", "PARTITION", "REGISTER"}
"""Terminals that are no keywords."""

VALUES = frozenset({"INT", "FLOAT", "STRING", "TRUE", "FALSE", "NULL"})
"""Terminals that can all stand only where an expression begins."""

OPERATORS = frozenset(
    {
        *("PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "AND", "OR", "IS"),
        *("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"),
        *("LIKE", "BETWEEN", "IN"),
    }
)

JOINS = frozenset({"INNER", "CROSS", "LEFT", "RIGHT", "FULL"})
"""Words that may stand before JOIN."""

SET_SIGNS = frozenset({"INTERSECT", "EXCEPT"})
"""Words that stand where UNION may."""

AFTER_NAMES = frozenset({",", ")", ".", ";", "=", "<", ">", "FROM", "AS"})
"""What follows a word that is meant as the name of a column."""

RTSPEC_CLAUSES = ("STIME", "ETIME", "PERIOD", "OFFSET", "DEADLINE", "IMPORTANCE")
"""In their order."""

BEGINNINGS = frozenset({"CASE", "NOT", "DISTINCT"})
"""Words that pass for the beginning of something longer until the word after them."""

RELATION = "register the SELECT as a relation: REGISTER QUERY r SELECT …, and read it: FROM r"
HOPS = "write [RANGE r SLIDE s]"
NEWEST = "a window [ROWS n] keeps the newest n tuples, TOP n BY x the rows with the greatest x"

BRACKETS = {"RPAR": ("(", ")"), "RSQB": ("[", "]")}
"""Terminal that closes something → how that begins and ends."""

_comment_or_quoted = re.compile(
    r"""'(?:[^']|'')*' | "[^"]*" | --[^\n]* | /\*.*?\*/""", re.DOTALL | re.VERBOSE
)

absent = {
    "ORDER": ("ORDER BY", "tuples leave in the order of their timestamps"),
    **{word: (word, NEWEST) for word in ("LIMIT", "FETCH")},
    "NATURAL": ("NATURAL", "name the equal columns: FROM a [NOW] JOIN b [NOW] ON a.x = b.x"),
    "USING": ("USING", "name the equal columns: ON a.x = b.x"),
    **{word: (word, HOPS) for word in ("STEP", "HOP", "EVERY", "TUMBLE")},
    "OVER": ("OVER", "aggregates range over the window in FROM, such as [RANGE 1 MINUTE]"),
    "WITH": ("WITH", RELATION),
    "FILTER": ("FILTER", "count what CASE gives: count(CASE WHEN c THEN 1 END)"),
    "||": ("||", "write concat(a, b)"),
    "::": ("::", "write CAST(a AS int)"),
    "&&": ("&&", "write AND"),
}
"""Word or sign of SQL or of other languages → the construct that Vivace lacks, and a substitute."""


def explain_unexpected(text: str, unexpected: UnexpectedInput) -> QueryError:
    """Turn the parser's error into one that names the place, the mistake and the remedy."""
    offset = unexpected.pos_in_stream
    if offset is None or not 0 <= offset <= len(text):
        offset = len(text.rstrip())
    if isinstance(unexpected, UnexpectedToken):
        word = "" if unexpected.token.type == "$END" else str(unexpected.token)
        expected = set(unexpected.accepts or unexpected.expected) - {"QUOTED"}
        offset = offset if word else len(text.rstrip())
        if word in ("", ";") and (opened := _left_open(text[:offset], expected)) is not None:
            at, closing = opened
            return QueryError(text, at, f"{text[at]!r} is not closed; expected {closing!r}")
        message = _explained(text[:offset], word, text[offset + len(word) :], expected)
        return QueryError(text, offset, message)
    if isinstance(unexpected, UnexpectedCharacters):
        character = text[offset : offset + 1]
        if character == "'":
            return QueryError(text, offset, "the string does not end; close it with '")
        if character == '"':
            return QueryError(text, offset, 'the name does not end; close it with "')
        if (sign := text[offset : offset + 2]) in absent:
            return QueryError(text, offset, _absent(sign))
        expected = set(unexpected.allowed or ()) - {"COMMENT", "WHITESPACE", "QUOTED"}
        found = f"{character!r} is not expected here"
        return QueryError(text, offset, f"{found}; expected {_listed(expected)}")
    return QueryError(text, offset, "the query cannot be understood")


def _left_open(before: str, expected: set[str]) -> tuple[int, str] | None:
    """The innermost bracket that a statement leaves open at its end, and the sign that closes it.

    None: it cannot be closed there.
    """
    plain = _comment_or_quoted.sub(lambda found: " " * len(found[0]), before)
    for terminal, (opening, closing) in BRACKETS.items():
        if terminal in expected:
            closed = 0
            for at in range(len(plain) - 1, -1, -1):
                closed += (plain[at] == closing) - (plain[at] == opening)
                if closed < 0:
                    return at, closing
    return None


def _explained(before: str, word: str, after: str, expected: set[str]) -> str:
    """The mistake that a word in its place is, or the end of the text if the word is empty."""
    if not word:
        return f"the text ends; expected {_listed(expected)}"
    found, upper = f"{word!r} is not expected here", word.upper()
    if word + after[:1] == "/*":
        return "the comment does not end; close it with */"
    before, after = map(_without_comments, (before, after))
    last = "".join(re.findall(r"\w+|\S", before)[-1:]).upper()
    following = "".join(re.findall(r"^\s*(\w+|\S)", after)).upper()
    expected = expected - {"LOOP"}
    if word == "<" and "SEMICOLON" in expected:
        return f"{found}; a delay stands after a stream: ISTREAM(SELECT …)<NOW>"
    if word == ">" and expected >= {"NOW", "INT"}:
        return f"{found}; a delay says how long: <NOW>, <5 SECONDS>"
    for name, meant in (
        (word, expected == {"NAME"} or ("NAME" in expected and following in AFTER_NAMES)),
        (last.lower(), last in BEGINNINGS and upper in AFTER_NAMES),
    ):
        if meant and name.upper() in RESERVED:
            said = f"{name.upper()} is a word of the language"
            return f'{found}; {said}: as a name, write "{name}"'
    if word.startswith('"'):
        return f"{found}; strings stand in single quotes: 'text'"
    if word == last == "=":
        return f"{found}; write a single ="
    if "*" in (word, last) and word in "*," and last in ("*", "."):
        return f"{found}; * stands alone: list the columns"
    if "SECONDS" in expected and re.fullmatch(r"\.\d+", word):
        return f"{found}; lengths of time are whole numbers: write it in MILLISECONDS"
    if upper in RTSPEC_CLAUSES and re.search(r"\bRTSPEC\b", before, re.IGNORECASE):
        return f"{found}; the clauses of RTSPEC stand in the order {', '.join(RTSPEC_CLAUSES)}"
    if upper == "RTSPEC" and "RPAR" in expected:
        return f"{found}; it stands after the last parenthesis: RSTREAM(SELECT …) RTSPEC …"
    if upper == "HAVING" and re.search(r"\bTOP\s+\d+\s+BY\b", before, re.IGNORECASE):
        return f"{found}; HAVING stands before TOP"
    if upper == "PARTITION" and re.search(r"\bTOP\s+\d+\s*$", before, re.IGNORECASE):
        return f"{found}; write TOP n BY x PARTITION BY c"
    # The word passes for the name of a column until the word after it.
    if last == "TOP" and word.isdecimal():
        return f"{found}; TOP stands at the end of a SELECT: SELECT … FROM s [NOW] TOP {word} BY x"
    for given in (upper, following if upper == "NOT" else ""):
        if given in absent:
            return _absent(given)
    if upper == "DESC" and "ASC" in expected:
        return f"{found}; leave DESC out: TOP keeps the greatest, and with ASC the least"
    meant = closest(word, {name for name in expected if name not in SIGNS})
    if meant and (len(word) > 1 or "AS" not in expected):
        return f"{found}; did you mean {meant}?"
    if "AS" in expected and upper not in RESERVED and re.fullmatch(r"[A-Za-z_]\w*", word):
        return f"{found}; write AS before a new name: AS {word}"
    return f"{found}; expected {_listed(expected)}"


def _without_comments(text: str) -> str:
    return _comment_or_quoted.sub(lambda found: found[0] if found[0][0] in "'\"" else " ", text)


def _absent(word: str) -> str:
    """What Vivace lacks, and what to write instead."""
    missing, instead = absent[word]
    return f"Vivace has no {missing} yet" + (f"; {instead}" if instead else "")


def _listed(terminals: set[str]) -> str:
    """Terminals in words; those of an expression and the operators as one each."""
    left, words = set(terminals), list[str]()
    if left >= VALUES:
        left -= {*VALUES, "NAME", "NOT", "MINUS", "LPAR", "CASE", "CAST", "EXISTS"}
        words.append("an expression")
    if len(left & OPERATORS) > 2:
        left -= OPERATORS | {"NOT"}
        words.append("an operator")
    if "JOIN" in left:
        left -= JOINS
    if "UNION" in left:
        left -= SET_SIGNS
    words += (readable.get(name, name) for name in left)
    # Words for a sign come before keywords.
    words.sort(key=lambda each: (each.isupper(), each))
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" or {words[-1]}"
