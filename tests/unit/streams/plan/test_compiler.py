"""Names, types, and where conditions go."""

from __future__ import annotations

import pytest

from streams.language import QueryError, parse
from streams.plan.compiler import compile_statement
from tests.unit.streams.operators_in_words import operators
from tests.unit.streams.running import catalogue, program


def test_output_columns_and_types() -> None:
    compiled = program(
        "RSTREAM(SELECT k, i + 1 AS j, i / 2 AS h, floor(x) AS f, i < x AS c FROM s [NOW])"
    )
    assert compiled.columns == {"k": "string", "j": "int", "h": "float", "f": "int", "c": "bool"}
    assert compiled.inputs == ("s",)
    assert compiled.stateless


def test_star_is_every_column_of_every_source() -> None:
    known = {"s": {"a": "int"}, "t": {"b": "string"}}
    compiled = program("ISTREAM(SELECT * FROM s [NOW], t [ROWS 1])", known)
    assert compiled.columns == {"a": "int", "b": "string"}
    assert compiled.inputs == ("s", "t")
    assert not compiled.stateless


def test_aggregates_have_types_and_equal_ones_are_shared() -> None:
    compiled = program(
        "ISTREAM(SELECT k, count(*) AS n, sum(i) AS t, sum(i) / count(*) AS m, avg(i) AS a, "
        "max(k) AS g FROM s [NOW] GROUP BY k)"
    )
    assert list(compiled.columns.values()) == ["string", "int", "int", "float", "float", "string"]
    (select,) = compiled.selects
    assert select.group is not None
    assert [one.function for one in select.group.aggregates] == ["count", "sum", "avg", "max"]


def test_only_columns_that_are_used_are_read() -> None:
    compiled = program("ISTREAM(SELECT i FROM s [PARTITION BY k ROWS 1] WHERE b)")
    assert compiled.reads == {"s": ("k", "i", "b")}


def test_sessions_are_not_joined() -> None:
    with pytest.raises(QueryError, match="sessions cannot be joined"):
        program("RSTREAM(SELECT s.k AS k FROM s [SESSION 1 SECOND], t [NOW] WHERE s.i = t.i)")


def test_conditions_are_pushed_down_and_windows_shared() -> None:
    compiled = program(
        "ISTREAM(SELECT a.k AS k FROM s [ROWS 2] AS a, s [ROWS 2] AS b "
        "WHERE a.k < b.k AND a.i > 1 AND abs(a.x - b.x) < 1)"
    )
    assert operators(compiled) == [
        ("window", "s [ROWS 2]"),
        ("filter", "(a.i > 1)"),
        ("join", "s × s WHERE (abs((a.x - b.x)) < 1) AND (a.k < b.k)"),
        ("project", "a.k AS k"),
        ("istream", "q"),
    ]


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("SELECT kk FROM s [NOW]", "s has no column kk; did you mean"),
        ("SELECT z.k FROM s [NOW]", "there is no z in FROM"),
        ("SELECT * FROM u [NOW]", "there is no stream u; there is s, t"),
        ("SELECT * FROM s.late [NOW]", "no stream s.late; write `late: true` in the source of s,"),
        ("SELECT * FROM s.last [NOW]", r"there is no stream s\.last; there is s, t"),
        ("SELECT * FROM s", "s is a stream and needs a window"),
        ("SELECT * FROM s [PARTITION BY z ROWS 1]", "s has no column z"),
        ("SELECT absx(i) AS y FROM s [NOW]", "there is no function absx; did you mean abs?"),
        ("SELECT add(i, i) AS y FROM s [NOW]", "there is no function add"),
        ("SELECT abs(i, x) AS y FROM s [NOW]", "abs takes a number, not 2 arguments"),
        ("SELECT abs(*) AS y FROM s [NOW]", r"abs takes a number, not \*"),
        ("SELECT k + 1 AS y FROM s [NOW]", r"\+ takes numbers, not string and int"),
        ("SELECT b < b AS y FROM s [NOW]", "< takes two numbers or two strings"),
        ("SELECT k = 1 AS y FROM s [NOW]", "= takes two numbers or two values of one type"),
        ("SELECT i AND b AS y FROM s [NOW]", "AND takes two conditions, not int and bool"),
        ("SELECT i + 1 FROM s [NOW]", r"the column i \+ 1 needs a name"),
        ("SELECT i-i FROM s [NOW]", r'i-i AS …; if i-i is a name, write "i-i"'),
        ("SELECT k, i AS k FROM s [NOW]", "two columns are called k"),
        ("SELECT k AS _ts FROM s [NOW]", "_ts is reserved: _ts is the timestamp of a tuple"),
        ("SELECT k AS _SEQ FROM s [NOW]", "_SEQ is reserved: _seq is the number of a tuple"),
        ("SELECT k AS _generation FROM s [NOW]", "give it another name with AS"),
        ("SELECT k FROM s [NOW], t [NOW]", "k is ambiguous: s.k or t.k?"),
        ("SELECT * FROM s [NOW], t [NOW]", "two columns are called k"),
        ("SELECT s.k FROM s [NOW], s [NOW]", "two sources are called s"),
        ("SELECT k FROM s [NOW] WHERE i", "WHERE needs a condition, this is of type int"),
        ("SELECT k FROM s [NOW] WHERE count(*) > 1", "count is an aggregate"),
        ("SELECT sum(max(i)) AS y FROM s [NOW]", "max is an aggregate"),
        ("SELECT k, count(*) AS n FROM s [NOW]", "k is neither in GROUP BY nor in an aggregate"),
        ("SELECT medan(x) AS m, count(*) AS n FROM s [NOW]", "there is no function medan"),
        ("SELECT count(*) AS n, first_value(i) AS f FROM s [NOW]", r"; write first\(a\)"),
        ("SELECT count(*) AS n FROM s [NOW] HAVING n > 1", "that SELECT gives, known to readers"),
        ("SELECT count(*) AS n FROM s [NOW] HAVING n > 1", r"; write count\(\*\)"),
        ("SELECT i AS score FROM s [NOW] TOP 2 BY score", "score is a name that SELECT gives"),
        (
            "SELECT i AS j, count(*) AS n FROM s [NOW] GROUP BY j",
            "of this statement only; write i",
        ),
        ("SELECT s.n AS n FROM s [NOW]", "s has no column n"),
        ("SELECT k, window_start AS w FROM s [NOW]", "the end of a window is the timestamp of its"),
        ("SELECT tumble_start(i) AS w FROM s [NOW]", "the end of a window is the timestamp of its"),
        (
            "SELECT count(*) AS n, _ts AS t FROM s [NOW]",
            "a result is known to statements",
        ),
        (
            "SELECT _ts FROM s [NOW]",
            "_ts is reserved: _ts is the timestamp of a tuple; give it another name with AS",
        ),
        ("SELECT * FROM s [NOW] GROUP BY k", r"SELECT \* cannot be grouped"),
        ("SELECT sum(k) AS y FROM s [NOW]", "sum takes a number, not string"),
        ("SELECT min(b) AS y FROM s [NOW]", "min takes numbers or strings, not bool"),
        ("SELECT sum(*) AS y FROM s [NOW]", r"sum takes one value, not \*"),
        ("SELECT k FROM s [NOW] UNION ALL SELECT i FROM s [NOW]", "UNION ALL needs the same"),
    ],
)
def test_what_does_not_fit_is_refused(select: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        program(f"ISTREAM({select})")


def test_errors_point_into_the_whole_text() -> None:
    text = (
        "REGISTER QUERY one RSTREAM(SELECT * FROM s [NOW]);\n"
        "REGISTER QUERY two RSTREAM(\n  SELECT kay FROM s [NOW]);"
    )
    _, two = parse(text)
    with pytest.raises(QueryError) as raised:
        compile_statement(two, catalogue)
    assert (raised.value.line, raised.value.column) == (3, 10)
    assert str(raised.value).endswith("    SELECT kay FROM s [NOW]);\n           ^")


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("SELECT k FROM s [NOW] GROUP BY k HAVING count(*)", "HAVING needs a condition"),
        ("SELECT k FROM s [NOW] GROUP BY k HAVING x > 1", "x is neither in GROUP BY nor in an"),
        ("SELECT DISTINCT max(x) AS m FROM s [NOW] GROUP BY k", "needs all GROUP BY columns"),
        ("SELECT abs(DISTINCT i) AS a FROM s [NOW]", "abs is no aggregate"),
        ("SELECT CASE WHEN i THEN 1 END AS c FROM s [NOW]", "CASE takes conditions and values"),
        ("SELECT CASE WHEN b THEN 1 ELSE 'a' END AS c FROM s [NOW]", "values of one type"),
        ("SELECT coalesce(i, k) AS c FROM s [NOW]", "coalesce takes two or more values of one"),
        (
            "SELECT median(i) AS m FROM s [NOW]",
            "no function median; there is abs, avg, .*, upper\n",
        ),
        ("SELECT now() AS t FROM s [NOW]", "no function now; write _ts, the timestamp of a tuple"),
        ("SELECT Current_Timestamp AS t FROM s [NOW]", "there is no Current_Timestamp; write _ts,"),
        ("SELECT log10(i) AS t FROM s [NOW]", r"write ln\(a\) / ln\(10\)"),
        ("SELECT sign(i) AS t FROM s [NOW]", "write CASE WHEN a > 0 THEN 1"),
        ("SELECT i + i + i + k + i AS c FROM s [NOW]", r"\+ takes numbers, not int and string\n"),
        ("SELECT i LIKE 'a' AS c FROM s [NOW]", "LIKE takes a string and a pattern"),
        ("SELECT _ts FROM s [NOW], t [NOW]", "_ts is ambiguous: s._ts or t._ts"),
    ],
)
def test_what_does_not_fit_in_newer_clauses_is_refused(select: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        program(f"ISTREAM({select})")
