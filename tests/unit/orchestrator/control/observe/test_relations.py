"""Registered relations are part of the fragments that read them, and no fragments themselves."""

from __future__ import annotations

import pytest

from orchestrator.control.observe.dataflow import InvalidQuery, dataflow
from orchestrator.records import QueryRecord, StreamRecord

STREAMS = {
    "s": StreamRecord(
        name="s", site="here", columns={"k": "string", "i": "int", "x": "float"}, rate_bytes_s=1.0
    )
}
RELATION = "REGISTER QUERY latest SELECT k, i FROM s [PARTITION BY k ROWS 1]; "


def query(name: str, statements: str, output: str) -> QueryRecord:
    return QueryRecord(
        name=name,
        statements=statements,
        outputs={output: "here"},
        deadline_ms=1.0,
        recovery_bound_ms=1.0,
    )


def test_a_reader_has_the_text_of_the_relation_and_reads_its_streams() -> None:
    text = RELATION + "REGISTER QUERY q ISTREAM(SELECT k FROM latest WHERE i > 1);"
    flow = dataflow(STREAMS, {"one": query("one", text, "q")})
    (fragment,) = flow.fragments.values()
    assert fragment.name == "q"
    assert "FROM (SELECT k, i FROM s [PARTITION BY k ROWS 1]) AS latest" in fragment.statement
    assert fragment.uses == {"s": {"k": "string", "i": "int"}}


@pytest.mark.parametrize(
    ("statements", "output", "message"),
    [
        (
            "REGISTER QUERY latest SELECT x FROM s [ROWS 1]; REGISTER QUERY q ISTREAM(SELECT y "
            "FROM latest);",
            "q",
            "latest has no column y",
        ),
        (
            "REGISTER QUERY r SELECT z FROM s [ROWS 1]; "
            "REGISTER QUERY q ISTREAM(SELECT k FROM s [NOW]);",
            "q",
            "s has no column z",
        ),
        (
            RELATION + "REGISTER QUERY q ISTREAM(SELECT k FROM latest [NOW]);",
            "q",
            "latest is a relation, which takes no window",
        ),
        (
            "REGISTER QUERY a SELECT k FROM b; REGISTER QUERY b SELECT k FROM a; "
            "REGISTER QUERY q ISTREAM(SELECT k FROM a);",
            "q",
            "the relation a depends on itself",
        ),
        (
            RELATION + "REGISTER QUERY q ISTREAM(SELECT k FROM latest);",
            "latest",
            "is a relation, not a stream",
        ),
    ],
)
def test_mistakes_are_told(statements: str, output: str, message: str) -> None:
    with pytest.raises(InvalidQuery, match=message):
        dataflow(STREAMS, {"one": query("one", statements, output)})


def test_another_query_cannot_read_a_relation() -> None:
    text = RELATION + "REGISTER QUERY q ISTREAM(SELECT k FROM latest);"
    other = "REGISTER QUERY p ISTREAM(SELECT k FROM latest);"
    queries = {"one": query("one", text, "q"), "two": query("two", other, "p")}
    with pytest.raises(InvalidQuery, match="is a relation of query one"):
        dataflow(STREAMS, queries)
