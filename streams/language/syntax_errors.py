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
    "UNION": "UNION ALL",
    "$END": "the end",
}
"""Terminal → its words in a message, if they are not its name."""

SIGNS = readable.keys() - {"GROUP", "PARTITION", "REGISTER", "UNION"}
"""Terminals that are no keywords."""

VALUES = frozenset({"INT", "FLOAT", "STRING", "TRUE", "FALSE"})
"""Terminals that can all stand only where an expression begins."""

OPERATORS = frozenset(
    {
        *("PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "AND", "OR", "IS"),
        *("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"),
        *("LIKE", "BETWEEN", "IN"),
    }
)

AFTER_NAMES = frozenset({",", ")", ".", ";", "=", "<", ">", "FROM", "AS"})
"""What follows a word that is meant as the name of a column."""

BEGINNINGS = frozenset({"CASE", "NOT", "DISTINCT"})
"""Words that pass for the beginning of something longer until the word after them."""

STATEMENT = "make the inner SELECT a statement of its own, and read its stream"
NAMED = "name the expression with AS in a statement of its own, and read its stream"
JOIN = "list the streams in FROM and the condition in WHERE: FROM a [NOW], b [NOW] WHERE a.x = b.x"
OUTER_JOIN = f"for an inner join, {JOIN}"
HOPS = "write [RANGE r SLIDE s]"
NEWEST = "a window [ROWS n] keeps the newest n tuples, TOP n BY x the rows with the greatest x"

_remaining = {"EXCEPT": "max(side) = 0", "INTERSECT": "min(side) <> max(side)"}
"""Operation of SQL on two relations → which keys it leaves, by the sides that they come from."""


def _set_operation(word: str) -> str:
    """Statements that stand for one with an operation on the rows of two streams."""
    both = " UNION ALL ".join(
        f"SELECT k, {side} AS side FROM {stream} [NOW]" for side, stream in enumerate("ab")
    )
    rest = f"SELECT k FROM both [RANGE 1 HOUR] GROUP BY k HAVING {_remaining[word]}"
    return f"REGISTER QUERY both RSTREAM({both}); REGISTER QUERY rest RSTREAM({rest});"


_comment_or_quoted = re.compile(
    r"""'(?:[^']|'')*' | "[^"]*" | --[^\n]* | /\*.*?\*/""", re.DOTALL | re.VERBOSE
)

absent = {
    "ORDER": ("ORDER BY", "tuples leave in the order of their timestamps"),
    **{word: (word, NEWEST) for word in ("LIMIT", "FETCH")},
    **dict.fromkeys(("JOIN", "INNER", "CROSS", "NATURAL"), ("JOIN", JOIN)),
    **dict.fromkeys(
        ("LEFT", "RIGHT", "FULL", "OUTER"), ("outer joins", f"for an inner join, {JOIN}")
    ),
    **{word: (word, f"write {_set_operation(word)}") for word in ("EXCEPT", "INTERSECT")},
    **{word: (word, HOPS) for word in ("STEP", "HOP", "EVERY", "TUMBLE")},
    "OVER": ("OVER", "aggregates range over the window in FROM, such as [RANGE 1 MINUTE]"),
    "WITH": ("WITH", STATEMENT),
    "FILTER": ("FILTER", "count what CASE gives: count(CASE WHEN c THEN 1 END)"),
    **dict.fromkeys(("DAY", "DAYS"), ("windows in days", "write it in HOURS")),
    "||": ("||", "write concat(a, b)"),
    "::": ("::", "write CAST(a AS int)"),
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
    subquery = (upper == "SELECT" and expected >= VALUES) or (word == "(" and last == "FROM")
    grouping = re.search(r"\bGROUP\s+BY\s[\w.,\s]*$", before, re.IGNORECASE)
    if upper == "NULL" and expected >= VALUES:
        return (
            f"{found}: it is no value that can be written; compare by IS NULL, and leave ELSE out "
            "where CASE is to give NULL"
        )
    for name, meant in (
        (word, expected == {"NAME"} or ("NAME" in expected and following in AFTER_NAMES)),
        (last.lower(), last in BEGINNINGS and upper in AFTER_NAMES),
    ):
        if meant and name.upper() in RESERVED:
            said = f"{name.upper()} is a word of the language"
            return f'{found}; {said}: as a name, write "{name}"'
    if subquery:
        return f"Vivace has no sub-queries yet; {STATEMENT}"
    if upper == "SELECT" and last == "UNION":
        return f"{found}; write UNION ALL: there is no UNION that drops equal tuples yet"
    if grouping and word in "(+-*/%":
        return f"GROUP BY takes columns only; {NAMED}"
    if word.startswith('"'):
        return f"{found}; strings stand in single quotes: 'text'"
    if word == last == "=":
        return f"{found}; write a single ="
    if "*" in (word, last) and word in "*," and last in ("*", "."):
        return f"{found}; * stands alone: list the columns"
    if "SECONDS" in expected and re.fullmatch(r"\.\d+", word):
        return f"{found}; windows take whole numbers: write it in MILLISECONDS"
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
        left -= {*VALUES, "NAME", "NOT", "MINUS", "LPAR", "CASE", "CAST"}
        words.append("an expression")
    if len(left & OPERATORS) > 2:
        left -= OPERATORS | {"NOT"}
        words.append("an operator")
    words += (readable.get(name, name) for name in left)
    # Words for a sign come before keywords.
    words.sort(key=lambda each: (each.isupper(), each))
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" or {words[-1]}"
