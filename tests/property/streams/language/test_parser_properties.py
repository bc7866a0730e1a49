"""Whatever one writes, there is either a syntax tree or a message."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.language import QueryError, parse
from streams.plan.compiler import compile_statement

written = (
    "REGISTER QUERY q RSTREAM ISTREAM ( ) SELECT * FROM s t [NOW] [ ] ROWS RANGE 1 SECONDS "
    "PARTITION BY WHERE x + - / % < <= = <> AND OR NOT IS NULL TRUE count sum abs , . ; AS a "
    "'text' ' 1.5 UNION ALL GROUP -- é"
)
words = st.sampled_from([*written.split(), "\n"])
catalogue = {"s": {"x": "int", "a": "string"}, "t": {"x": "float"}}
phrases = st.lists(words, max_size=30).map(" ".join)
inside = phrases.map(lambda phrase: f"REGISTER QUERY q ISTREAM(SELECT {phrase});")


@settings(max_examples=300, deadline=None)
@given(st.one_of(phrases, inside, st.text(max_size=60)))
def test_any_text_gives_statements_or_a_query_error(text: str) -> None:
    error: QueryError | None = None
    try:
        for statement in parse(text):
            compile_statement(statement, catalogue)
    except QueryError as raised:
        error = raised
    if error is not None:
        lines = text.split("\n")
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
