"""Text to syntax tree."""

from __future__ import annotations

import pytest

from streams.language import QueryError, parse
from streams.language.ast import Call, Column, Literal, Select, ToStream
from streams.language.names import RESERVED
from streams.language.writer import written_expression, written_select


def select(text: str) -> Select:
    (statement,) = parse(f"REGISTER QUERY q RSTREAM({text});")
    return statement.body.selects[0]


def test_statements_keep_their_names_and_texts() -> None:
    text = """
      -- the first
      REGISTER QUERY one RSTREAM(SELECT * FROM s [NOW]);
      register query two Istream(select x from s [rows 3] as a);
    """
    one, two = parse(text)
    assert (one.name, one.body.to_stream) == ("one", ToStream.RSTREAM)
    assert one.text == "REGISTER QUERY one RSTREAM(SELECT * FROM s [NOW]);"
    assert (two.name, two.body.to_stream) == ("two", ToStream.ISTREAM)
    assert [statement.text for statement in parse(two.text)] == [two.text]


@pytest.mark.parametrize(
    ("window", "rows", "range_ms", "keys"),
    [
        ("[NOW]", None, 1, []),
        ("[UNBOUNDED]", None, None, []),
        ("[ROWS UNBOUNDED]", None, None, []),
        ("[RANGE UNBOUNDED]", None, None, []),
        ("[ROWS 5]", 5, None, []),
        ("[RANGE 250 MILLISECONDS]", None, 250, []),
        ("[RANGE 1 SECOND]", None, 1_000, []),
        ("[RANGE 2 MINUTES]", None, 120_000, []),
        ("[RANGE 1 HOUR]", None, 3_600_000, []),
        ("[PARTITION BY a, b ROWS 2]", 2, None, ["a", "b"]),
        ("[PARTITION BY a ROWS 1 RANGE 30 SECONDS]", 1, 30_000, ["a"]),
        ("[SESSION 3 SECONDS PARTITION BY b, a]", None, None, ["b", "a"]),
        ("[RANGE 2 SECONDS SLIDE 1 SECOND OFFSET 0 SECONDS]", None, 2_000, []),
    ],
)
def test_windows(window: str, rows: int | None, range_ms: int | None, keys: list[str]) -> None:
    spec = select(f"SELECT * FROM s {window}").sources[0].window
    assert spec is not None
    assert (spec.rows, spec.range_ms) == (rows, range_ms)
    assert [column.name for column in spec.partition_by] == keys


def shown(expression: object) -> str:
    match expression:
        case Literal():
            return repr(expression.value)
        case Column():
            return (
                f"{expression.source}.{expression.name}" if expression.source else expression.name
            )
        case Call():
            return f"{expression.function}({', '.join(map(shown, expression.arguments))})"
        case _:
            raise AssertionError(expression)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1 + 2 * 3 - 4", "subtract(add(1, multiply(2, 3)), 4)"),
        ("-a.x * 2", "multiply(negate(a.x), 2)"),
        ("(1 + 2) * 3", "multiply(add(1, 2), 3)"),
        ("NOT a OR b AND c", "or(not(a), and(b, c))"),
        ("a = 1 AND b <> 2 AND c != 3", "and(and(equal(a, 1), not_equal(b, 2)), not_equal(c, 3))"),
        ("x % 2 >= 1", "greater_equal(modulo(x, 2), 1)"),
        ("x IS NULL OR y IS NOT NULL", "or(is_null(x), not(is_null(y)))"),
        ("k LIKE 'a%' OR k NOT LIKE '_'", "or(like(k, 'a%'), not(like(k, '_')))"),
        ("x BETWEEN 1 AND 2 AND y", "and(and(greater_equal(x, 1), less_equal(x, 2)), y)"),
        ("x NOT IN (1, y + 2)", "not(or(equal(x, 1), equal(x, add(y, 2))))"),
        ("CASE WHEN a THEN 1 WHEN b THEN 2 ELSE 3 END", "case(a, 1, b, 2, 3)"),
        ("CASE x WHEN 1 THEN 'one' END", "case(equal(x, 1), 'one')"),
        ("CAST(x + 1 AS Float)", "cast_float(add(x, 1))"),
        ("Power(x, 2)", "power(x, 2)"),
        ("'it''s' = name", 'equal("it\'s", name)'),
        ("TRUE AND false", "and(True, False)"),
        ("1 + 2 + 3 - 4 - 5 + 6", "add(subtract(subtract(add(1, 2, 3), 4), 5), 6)"),
        ("a * b * c / d * e", "multiply(divide(multiply(a, b, c), d), e)"),
        ("a + (b + c) + d", "add(a, add(b, c), d)"),
        ("a /* + b */ + /* c\n ** / */ d /**/ -- e", "add(a, d)"),
        ("'/* a' = '*/'", "equal('/* a', '*/')"),
        ("1.5 + .5 + 1e3 + 2.", "add(1.5, 0.5, 1000.0, 2.0)"),
    ],
)
def test_expressions(text: str, tree: str) -> None:
    (item,) = select(f"SELECT {text}\n AS y FROM s [NOW]").items
    assert shown(item.expression) == tree


odd_names = ["user-id", "@timestamp", "größe in m", "100%", "it's", "--", "/*", "a;b", "#0", "π"]

free_words = [
    *("row", "first", "second", "alerts", "rows", "range", "now", "seconds"),
    *("partition", "by", "count", "query", "istream", "all"),
]


@pytest.mark.parametrize("name", free_words)
def test_most_words_are_free_as_names(name: str) -> None:
    chosen = select(f"SELECT a.{name} AS {name}, {name} FROM {name} [NOW] AS a WHERE {name} > 1")
    assert chosen.items[0].alias == name
    assert chosen.sources[0].stream == name


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("REGISTER QUERRY x", 1, 10, "did you mean QUERY?"),
        ("REGISTER QUERY q\nRSTREAM(SELEC * FROM s [NOW]);", 2, 9, "did you mean SELECT?"),
        ("REGISTER QUERY q RSTREAM(SELECT FROM s [NOW]);", 1, 33, "'FROM' is not expected here"),
        ("REGISTER QUERY q RSTREAM(SELECT a FROM s [RANGE 5 SECS]);", 1, 51, "SECONDS"),
        ("REGISTER QUERY q RSTREAM(SELECT a FROM s [ROWS 0]);", 1, 48, "from 1 to 10^12, not 0"),
        (f"REGISTER QUERY q RSTREAM(SELECT a FROM s [ROWS {'9' * 5000}]);", 1, 48, "from 1 to"),
        ("REGISTER QUERY q RSTREAM(SELECT 'a FROM s [NOW]);", 1, 33, "the string does not end"),
        ("REGISTER QUERY q RSTREAM(SELECT a # b FROM s [NOW]);", 1, 35, "'#' is not expected"),
        ("REGISTER QUERY q RSTREAM(SELECT * FROM s [NOW]", 1, 25, "is not closed; expected"),
        (
            "REGISTER QUERY q RSTREAM(SELECT 9223372036854775808 AS i FROM s [NOW]);",
            1,
            33,
            "64 bits",
        ),
        (
            "REGISTER QUERY q RSTREAM(SELECT 1 - 9223372036854775808 AS i FROM s [NOW]);",
            1,
            37,
            "9223372036854775808 does not fit in 64 bits",
        ),
        (
            "REGISTER QUERY q RSTREAM(SELECT -9223372036854775809 AS i FROM s [NOW]);",
            1,
            33,
            "-9223372036854775809 does not fit in 64 bits",
        ),
        ("REGISTER QUERY q RSTREAM(SELECT 1e999 AS x FROM s [NOW]);", 1, 33, "too large"),
        ("", 1, 1, "the text ends; expected REGISTER"),
    ],
)
def test_errors_say_what_and_where(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(QueryError) as raised:
        parse(text)
    assert (raised.value.line, raised.value.column) == (line, column)
    assert message in raised.value.message
    *_, shown_line, caret = str(raised.value).split("\n")
    assert shown_line == "  " + text.split("\n")[line - 1]
    assert caret.index("^") == column + 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("SELECT a FROM s [NOW] ORDER BY a", "no ORDER BY yet; tuples leave in the order"),
        ("SELECT a FROM s [NOW] limit 5", "no LIMIT yet; a window [ROWS n]"),
        ("SELECT TOP 5 a FROM s [NOW]", "TOP stands at the end of a SELECT"),
        ("SELECT a FROM s [NOW] NATURAL JOIN t [NOW]", "no NATURAL yet; name the equal columns"),
        ("SELECT a FROM s [NOW] JOIN t [NOW] USING (a)", "no USING yet; name the equal columns"),
        ("SELECT a FROM s [NOW] GROUP BY 1", "no positions"),
        ("SELECT a FROM s [RANGE 5 MINUTES HOP 1 MINUTE]", "no HOP yet; write [RANGE r SLIDE s]"),
        (
            "SELECT a FROM s [RANGE 5 MINUTES SLIDE 1 MINUTE OFFSET 60 SECONDS]",
            "OFFSET must be less than SLIDE",
        ),
        (
            "SELECT a FROM s [RANGE 5 MINUTES SLIDE 1 MINUTE OFFSET 9999999999999 SECONDS]",
            "OFFSET must be from 0 to 10^12, not 9999999999999",
        ),
        ("SELECT a FROM s [RANGE 106751991168 DAYS]", "RANGE must be at most 11574074 DAYS"),
        ("SELECT a FROM s [SESSION 11574075 DAYS]", "SESSION must be at most 11574074 DAYS"),
        ("SELECT CAST(a AS number) AS b FROM s [NOW]", "there is no type number; there is int,"),
        (
            "SELECT CAST(a AS Bool) AS b FROM s [NOW]",
            "no CAST to bool yet; a comparison gives",
        ),
        ("SELECT a || 'x' AS b FROM s [NOW]", "no || yet; write concat(a, b)"),
        ("SELECT a::int AS b FROM s [NOW]", "no :: yet; write CAST(a AS int)"),
        ("SELECT a | b AS b FROM s [NOW]", "'|' is not expected here; expected"),
        ("SELECT a FROM s [NOW] TOP 2 BY a DESC", "leave DESC out: TOP keeps the greatest"),
        (
            "SELECT a AS select FROM s [NOW]",
            'SELECT is a word of the language: as a name, write "select"',
        ),
        (
            "SELECT a FROM s [NOW] AS Case",
            'CASE is a word of the language: as a name, write "Case"',
        ),
        ("SELECT sum(a) OVER (PARTITION BY b) FROM s [NOW]", "no OVER yet; aggregates range"),
        ("SELECT a FROM s [NOW] GROUP a", "expected BY"),
        ("SELECT a b FROM s [NOW]", "'b' is not expected here; write AS before a new name: AS b"),
        ("SELECT a null FROM s [NOW]", "'null' is not expected here; expected "),
        ("SELECT a FROM s [NOW] TOP 1 PARTITION BY b BY a", "write TOP n BY x PARTITION BY c"),
        ("SELECT a FROM s [NOW] TOP 1 BY a HAVING a > 1", "HAVING stands before TOP"),
        ("SELECT sum(a) n FROM s [NOW]", "write AS before a new name: AS n"),
        ("SELECT s.* FROM s [NOW]", "* stands alone: list the columns"),
        ("SELECT *, a FROM s [NOW]", "* stands alone: list the columns"),
        ("SELECT a FROM s [RANGE 1.5 SECONDS]", "are whole numbers: write it in MILLI"),
        ("SELECT count(*) FILTER (WHERE a) AS n FROM s [NOW]", "no FILTER yet; count what CASE"),
        ("SELECT a FROM s [NOW] WHERE a == 1", "write a single ="),
        ("SELECT /* c  a FROM s [NOW]", "the comment does not end; close it with */"),
        ("SELECT a /* select */ b /* c */ -- d\n FROM s [NOW]", "write AS before a new name: AS b"),
        ("SELECT a FROM s [NOW] WHERE a = /* = */ = 1", "write a single ="),
        ('SELECT a FROM s [NOW] WHERE a LIKE "x"', "strings stand in single quotes"),
    ],
)
def test_what_the_language_lacks_is_said_with_what_to_use(body: str, message: str) -> None:
    with pytest.raises(QueryError) as raised:
        select(body)
    assert message in raised.value.message


@pytest.mark.parametrize("word", sorted(RESERVED))
def test_a_word_of_the_language_in_place_of_a_name_is_said_to_be_one(word: str) -> None:
    with pytest.raises(QueryError, match=f'{word} is a word of the language: as a name, write "'):
        select(f"SELECT a AS {word.lower()} FROM s [NOW]")


@pytest.mark.parametrize("word", sorted(RESERVED - {"NULL", "TRUE", "FALSE"}))
@pytest.mark.parametrize("place", ["SELECT {}, k", "SELECT k", "SELECT s.{}", "SELECT k, {} AS m"])
def test_a_word_of_the_language_in_place_of_a_column_is_said_to_be_one(
    word: str, place: str
) -> None:
    clause = " GROUP BY {}" if place == "SELECT k" else " WHERE k = 1"
    text = f"{place} FROM s [NOW]{clause}".format(word.lower(), word.lower())
    with pytest.raises(QueryError, match=f'as a name, write "{word.lower()}"'):
        select(text)


@pytest.mark.parametrize("name", [*(word.lower() for word in sorted(RESERVED)), *odd_names])
def test_any_name_can_be_written_in_quotes(name: str) -> None:
    quoted = f'"{name}"'
    one = select(
        f"SELECT s.{quoted} AS {quoted}, max({quoted}) AS m "
        f"FROM s [PARTITION BY {quoted} ROWS 2] AS {quoted} WHERE {quoted}.{quoted} > 1 "
        f"GROUP BY {quoted} TOP 1 BY {quoted} ASC PARTITION BY {quoted}"
    )
    again = select(written_select(one))
    assert written_select(again) == written_select(one)
    assert (again.items[0].alias, again.sources[0].alias) == (name, name)
    assert [getattr(each, "name", None) for each in again.group_by] == [name]
    assert again.sources[0].window is not None
    assert [each.name for each in again.sources[0].window.partition_by] == [name]


@pytest.mark.parametrize("name", ["", " a", "a.b", "a,b", "a\tb", "a`b", "a\nb", "x" * 129])
def test_what_cannot_be_a_name_is_refused_in_quotes_too(name: str) -> None:
    with pytest.raises(QueryError, match="cannot be a name: it has 1 to 128 letters"):
        select(f'SELECT "{name}" AS a FROM s [NOW]')


@pytest.mark.parametrize(
    "place", ["{} RSTREAM(SELECT k FROM s [NOW])", "q RSTREAM(SELECT k FROM {} [NOW])"]
)
def test_streams_and_statements_have_plain_names(place: str) -> None:
    (plain,) = parse("REGISTER QUERY " + place.format('"group"'))
    assert "group" in (plain.name, plain.body.selects[0].sources[0].stream)
    with pytest.raises(QueryError, match="a-b cannot be the name of a stream: it has letters"):
        parse("REGISTER QUERY " + place.format('"a-b"'))


def test_a_name_in_quotes_has_an_end() -> None:
    with pytest.raises(QueryError, match='the name does not end; close it with "'):
        select('SELECT "a FROM s [NOW]')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("REGISTER QUERY q RSTREAM(SELECT (a FROM s [NOW]);", "a closing parenthesis"),
        (
            "REGISTER QUERY q RSTREAM(SELECT max(a 5) FROM s [NOW]);",
            "a closing parenthesis, a comma, a dot, an opening parenthesis or an operator",
        ),
        ("REGISTER QUERY q RSTREAM(SELECT a FROM s [NOW) WHERE a > 1);", "']'"),
        ("REGISTER QUERY q RSTREAM(SELECT a FROM s [NOW] WHERE );", "an expression"),
        (
            "REGISTER QUERY q RSTREAM(SELECT a FROM s [5]);",
            "NOW, PARTITION BY, RANGE, ROWS, SESSION or UN",
        ),
        ("SELECT a FROM s [NOW]", "REGISTER QUERY"),
        ("REGISTER QUERY q", "DSTREAM, ISTREAM, RSTREAM or SELECT"),
    ],
)
def test_what_is_expected_is_said_in_words(text: str, expected: str) -> None:
    with pytest.raises(QueryError) as raised:
        parse(text)
    assert f"; expected {expected}" in raised.value.message


@pytest.mark.parametrize("end", ["", ";", "\n-- )\n;"])
@pytest.mark.parametrize(
    ("text", "place", "closing"),
    [
        ("RSTREAM(SELECT a FROM s [NOW]", 7, ")"),
        ("RSTREAM(SELECT a FROM s [NOW", 24, "]"),
        ("RSTREAM(SELECT a FROM s [NOW] WHERE (a > ')' AND (a < 2)", 36, ")"),
    ],
)
def test_what_is_left_open_is_shown_where_it_begins(
    text: str, place: int, closing: str, end: str
) -> None:
    with pytest.raises(QueryError, match=f"is not closed; expected '\\{closing}'") as raised:
        parse(f"REGISTER QUERY q\n{text}{end}")
    assert (raised.value.line, raised.value.column) == (2, place + 1)


@pytest.mark.parametrize("place", ["'a {}'", "{} AS b", "a AS {}", "b -- {}\n"])
def test_what_is_no_character_is_refused_at_its_place(place: str) -> None:
    text = "REGISTER QUERY q -- é\nRSTREAM(SELECT " + place.replace("{}", "\udc80\ud800")
    with pytest.raises(QueryError, match=r"'\\udc80' is no character") as raised:
        parse(text)
    assert (raised.value.line, raised.value.column) == (2, 16 + place.index("{"))
    # The message can be printed.
    assert r"\udc80\ud800" in str(raised.value).encode().decode()


@pytest.mark.parametrize(
    "least", ["-9223372036854775808", "- (9223372036854775808)", "-0009223372036854775808"]
)
def test_the_least_integer_can_be_written(least: str) -> None:
    item = select(f"SELECT 1 - - {least} AS x FROM s [NOW]").items[0].expression
    assert shown(item) == f"subtract(1, negate({-(2**63)}))"
    # Two signs side by side would begin a comment.
    again = select(f"SELECT {written_expression(item)} AS x FROM s [NOW]").items[0].expression
    assert shown(again) == shown(item)


def test_two_statements_of_one_name_are_refused() -> None:
    statement = "REGISTER QUERY q RSTREAM(SELECT * FROM s [NOW]);"
    with pytest.raises(QueryError, match="q is registered twice"):
        parse(statement + statement)


@pytest.mark.parametrize(
    "nested",
    [
        "- " * 5000 + "1",
        "CASE WHEN b THEN " * 260 + "1" + " END" * 260,
        "(b OR " * 600 + "b" + ")" * 600,
    ],
    ids=["signs", "cases", "brackets"],
)
def test_deep_nesting_is_an_error_not_a_crash(nested: str) -> None:
    with pytest.raises(QueryError, match="nested too deeply"):
        select(f"SELECT {nested} AS x FROM s [NOW]")


def test_a_stream_beside_another_one_has_a_name_of_two_parts() -> None:
    text = "REGISTER QUERY q RSTREAM(SELECT l.k FROM readings.late [NOW] AS l, s.late [NOW])"
    (statement,) = parse(text)
    first, second = statement.body.selects[0].sources
    assert (first.stream, first.alias) == ("readings.late", "l")
    assert (second.stream, second.alias) == ("s.late", "s.late")
