"""What expressions compute, NULLs and missing results included."""

from __future__ import annotations

from typing import Any

import pytest

from streams.expressions.patterns import named
from streams.language import QueryError
from tests.unit.streams.running import program, run


def value(
    expression: str,
    i: int | None = 7,
    x: float | None = 2.5,
    b: bool | None = True,
    k: str = "key",
) -> Any:
    ((_, result),) = run(f"RSTREAM(SELECT {expression} AS y FROM s [NOW])", [(1, k, i, x, b)])
    return result


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("i + 1", 8),
        ("i * x", 17.5),
        ("i / 2", 3.5),
        ("-i % 4", -3),
        ("i - 10", -3),
        ("abs(-x)", 2.5),
        ("floor(-x)", -3),
        ("ceil(-x)", -2),
        ("floor(i)", 7),
        ("round(x)", 3.0),
        ("round(-x)", -3.0),
        ("round(0.49999999999999994)", 0.0),
        ("sqrt(16)", 4.0),
        ("power(2, 10)", 1024.0),
        ("power(x, 2)", 6.25),
        ("ln(1)", 0.0),
        ("ln(i)", 1.9459101490553132),
        ("ln(0)", None),
        ("ln(-1)", None),
        ("exp(0)", 1.0),
        ("exp(x)", 12.182493960703473),
        ("exp(1000)", None),
        ("exp(-1000)", 0.0),
        ("nullif(i, 7)", None),
        ("nullif(i, 7.5)", 7),
        ("nullif(k, 'other')", "key"),
        ("nullif(k, CASE WHEN FALSE THEN 'a' END)", "key"),
        ("nullif(CASE WHEN FALSE THEN 1 END, i)", None),
        ("trim('  a b ')", "a b"),
        ("trim(' \t ')", "\t"),
        ("ltrim('  a ')", "a "),
        ("rtrim(' a  ')", " a"),
        ("CAST(b AS float)", 1.0),
        ("CAST(i > 7 AS float)", 0.0),
        ("x + i + 3", 12.5),
        ("i + 9223372036854775807 + x", -(2.0**63) + 8.5),
        ("1e308 * 10 * 0.1", None),
        ("i + 1 + CASE WHEN FALSE THEN 1 END + 2", None),
        ("least(i, x, 3)", 2.5),
        ("greatest('a', k)", "key"),
        ("floor(-9223372036854775808.0)", -(2**63)),
        ("-9223372036854775808", -(2**63)),
        ("(-9223372036854775807 - 1) % -1", 0),
        ("high_half(-1)", -1),
        ("low_half(-1)", 2**32 - 1),
        ("high_half(4294967296 * 5 + 7)", 5),
        ("low_half(4294967296 * 5 + 7)", 7),
        ("joined_sum(-1, 4294967295)", -1),
        ("joined_sum(2147483647, 4294967295)", 2**63 - 1),
        ("joined_sum(2147483647, 4294967296)", None),
        ("joined_sum(2147483648, 0)", None),
        ("joined_sum(2147483648, -1)", 2**63 - 1),
        ("joined_sum(-2147483648, 0)", -(2**63)),
        ("joined_sum(-2147483648, -1)", None),
        ("joined_mean(2147483648, 4294967295, 2)", (2**63 + 2**32 - 1) / 2),
        ("joined_mean(0, 2, 3)", 2 / 3),
        ("joined_mean(0, 0, 0)", None),
        ("exact_value('-5p-1')", -2.5),
        ("exact_value('1p1024')", None),
        # Half of the least float is rounded to even, anything above it up.
        ("exact_value('1p-1075')", 0.0),
        ("exact_value('100000001p-1107')", 5e-324),
        ("exact_value('five')", 0.0),
        ("exact_value('1p99999999')", 0.0),
        ("exact_mean('1p1024', 2)", 2.0**1023),
        ("exact_mean('ap0', 3)", 10 / 3),
        ("exact_mean('0p0', 0)", None),
        ("exact_deviation('7p0', '1dp0', 2)", 4.5**0.5),
        ("exact_deviation('7p-1074', '1dp-2148', 2)", 1e-323),
        ("exact_deviation('7p0', '1p0', 2)", None),
        ("exact_deviation('7p0', '31p0', 1)", None),
        ("abs(-9223372036854775807 - 1)", -(2**63)),
        # Rounded once: the dividend lies halfway between two floats.
        ("9007199254740993 / 3", 9007199254740993 / 3),
        ("(i + 9007199254740986) / (i - 4)", 9007199254740993 / 3),
        ("1 / 9007199254740993", 1 / 9007199254740993),
        ("(-9223372036854775807 - 1) / 3", -(2**63) / 3),
        ("9007199254740993 / (i - 7)", None),
        ("cos(0) + sin(0)", 1.0),
        ("radians(180) > 3.14159", True),
        ("k = 'key' AND NOT i <> 7", True),
        ("k < 'kex' OR b", True),
        ("'constant'", "constant"),
        ("7", 7),
    ],
)
def test_results(expression: str, result: Any) -> None:
    assert value(expression) == result


@pytest.mark.parametrize(
    "expression",
    [
        "x / 0",
        "i / 0",
        "i % 0",
        "x % 0",
        "sqrt(-1)",
        "power(10, 400)",
        "1e308 * 10",
        "1e308 * 10 - 1e308 * 10",
        "floor(1e30)",
        "floor(9223372036854775808.0)",
        "power(-8, 1 / 3)",
        "power(0, -1)",
        "1 / (x - 2.5)",
        "1e308 * 10 > 0",
    ],
)
def test_an_operation_without_a_result_is_null(expression: str) -> None:
    assert value(expression) is None


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("i + 1", None),
        ("i = i", None),
        ("abs(x)", None),
        ("i IS NULL", True),
        ("i IS NOT NULL", False),
        ("least(i, 3)", 3),
        ("greatest(i, x)", None),
        ("b AND FALSE", False),
        ("b AND TRUE", None),
        ("b OR TRUE", True),
        ("b OR FALSE", None),
        ("NOT b", None),
    ],
)
def test_null_in_null_out_but_for_kleene_and_extremes(expression: str, result: Any) -> None:
    assert (
        value(expression, i=None, x=None, b=None) is result
        or value(expression, i=None, x=None, b=None) == result
    )


def test_where_selects_only_what_is_true() -> None:
    tuples = [(1, "a", 1, 1.0, True), (1, "b", None, 1.0, True), (1, "c", 9, 1.0, True)]
    assert run("RSTREAM(SELECT k FROM s [NOW] WHERE i < 5)", tuples) == [(1, "a")]
    assert run("RSTREAM(SELECT k FROM s [NOW] WHERE NOT i < 5)", tuples) == [(1, "c")]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("to_stream", ["RSTREAM", "ISTREAM"])
def test_floats_that_are_no_numbers_are_null(number: float, to_stream: str) -> None:
    query = f"{to_stream}(SELECT x, x + 1 AS y FROM s [NOW])"
    assert run(query, [(1, "a", 1, number, True)]) == [(1, None, None)]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0" * 5000 + "7", 7),
        ("-" + "0" * 31 + str(2**63), -(2**63)),
        (" +" + "0" * 31 + "\t", 0),
        ("0" * 31 + str(2**63), None),
        ("9" * 5000, None),
        ("1.5", None),
        ("1e2", None),
        ("0x1", None),
        ("+-1", None),
        ("1 2", None),
        ("+", None),
        ("", None),
        ("٣", None),
        ("\x1f7", None),
        ("7\x1c", None),
        ("\x857", None),
        ("\u20037", None),
        ("\v\f\r\n 7", 7),
    ],
)
def test_a_text_is_a_whole_number_of_digits_or_null(text: str, number: int | None) -> None:
    assert value(f"CAST('{text}' AS int)") == number
    assert value("CAST(k AS int)", k=text) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(
            ("12", 12.0),
            ("1.", 1.0),
            (".5", 0.5),
            ("-1.25e-1 ", -0.125),
            ("1..", None),
            (".", None),
        ),
        *((f"{sign}1.5", None) for sign in "\x1c\x1d\x1e\x1f\x85\xa0\u2003\u3000"),
        *((f"1.5{sign}", 1.5) for sign in " \t\n\v\f\r"),
    ],
)
def test_a_text_is_a_decimal_number_or_null(text: str, number: float | None) -> None:
    assert value(f"CAST('{text}' AS float)") == number
    assert value("CAST(k AS float)", k=text) == number


@pytest.mark.parametrize("sign", ["+", "*"])
@pytest.mark.parametrize("terms", [200, 5000])
def test_a_sum_is_as_long_as_it_is_and_added_from_the_left(sign: str, terms: int) -> None:
    numbers = [1 + (n * 0.37) % 0.01 for n in range(terms)]
    expected = numbers[0]
    for number in numbers[1:]:
        expected = expected + number if sign == "+" else expected * number
    assert value(f" {sign} ".join(map(repr, numbers))) == expected
    assert value(f" {sign} ".join(["x", *map(repr, numbers)])) is not None
    assert run(
        f"RSTREAM(SELECT sum({f' {sign} '.join(['i'] * terms)}) AS y FROM s [NOW])",
        [(1, "a", 1, 1.5, True)],
    ) == [(1, terms if sign == "+" else 1)]


def test_a_text_that_grows_beyond_all_bounds_is_null() -> None:
    many = "a" * 2**20
    assert value("length(replace(k, 'a', k))", k=many) is None
    assert value("length(replace(k, 'a', 'bcde'))", k=many) == 2**22
    assert value("length(replace(k, 'a', 'bcdef'))", k=many) is None
    assert value("length(replace(k, 'a', ''))", k=many) == 0
    assert value("length(concat(k, k, k, k))", k=many) == 2**22
    assert value("concat(k, k, k, k, 'b') IS NULL", k=many)
    twice = "concat({0}, {0}, {0}, {0}, {0}, {0}, {0}, {0})"
    assert value(twice.format(twice.format(twice.format("k"))), k=many) is None
    rows = [(1, "a", 1, 1.5, True), (1, many, 1, 1.5, True), (1, None, 1, 1.5, True)]
    found = run("RSTREAM(SELECT length(concat(k, k, k, k, 'b')) AS y FROM s [NOW])", rows)
    assert [row[1] for row in found] == [5, None, None]


def refused(expression: str) -> str:
    with pytest.raises(QueryError) as raised:
        program(f"RSTREAM(SELECT {expression} AS e FROM s [NOW])")
    return str(raised.value)


def test_a_pattern_that_is_none_is_refused() -> None:
    assert "RE2 does not take: a(b" in refused("regexp_extract(k, 'a(b', 1)")
    assert "group 2 of a pattern with 1 groups" in refused("regexp_extract(k, 'a(b)', 2)")
    assert "as literals" in refused("regexp_extract(k, k, 1)")
    # Whole in the brackets of a group, which are put around it.
    for pattern in ("a)(b", "a)|(b", ")("):
        assert f"RE2 does not take: {pattern}" in refused(f"regexp_extract(k, '{pattern}', 0)")


@pytest.mark.parametrize("group", ["(?P<id>a)", "(?<id>a)"])
def test_a_group_with_a_name_is_refused_for_what_it_is(group: str) -> None:
    message = refused(f"regexp_extract(k, 'b{group}', 1)")
    assert f"groups have numbers, not names: write ( for {group[:-2]}" in message


@pytest.mark.parametrize("pattern", [r"a(\C)", r"\\\C", r"\Qa\E\C"])
def test_a_pattern_that_splits_characters_is_refused(pattern: str) -> None:
    message = refused(f"regexp_extract(k, '{pattern}', 0)")
    assert r"\C stands for a byte" in message
    assert "for a character" in message


@pytest.mark.parametrize(
    ("text", "pattern", "group", "found"),
    [
        ("aé", "a(.)", 1, "é"),
        (r"a\C", r"(\\C)", 1, r"\C"),
        (r"a\C(b", r"\Q\C(\E(b)", 1, "b"),
        ("a(b", r"a\Q(b", 0, "a(b"),
        ("1(a", "[[:digit:](]+(a)", 1, "a"),
        ("[:(a", "[[:(]+(a)", 1, "a"),
        ("x(a", r"[^^](.)(a)", 1, "("),
        ("](a", r"[]](.)(a)", 1, "("),
        ("x]a", r"[^]]](a)", 1, "a"),
    ],
)
def test_brackets_that_begin_no_group_are_no_groups(
    text: str, pattern: str, group: int, found: str
) -> None:
    assert value(f"regexp_extract(k, '{pattern}', {group})", k=text) == found


def test_brackets_of_a_pattern_that_begin_no_group_are_not_counted() -> None:
    assert named(r"\((a)[(](?:b)[^](](c)") == (
        r"(?P<g0>\((?P<g1>a)[(](?:b)[^](](?P<g2>c))",
        2,
    )


def test_a_pattern_that_is_too_large_is_refused() -> None:
    assert "500000 characters, which is too large" in refused(
        f"regexp_extract(k, '{'[^a]b' * 100_000}', 0)"
    )


@pytest.mark.parametrize("pattern", ["%" + "_a" * 100_000, r"%\%" * 100_000])
def test_a_pattern_of_like_that_is_too_large_is_refused(pattern: str) -> None:
    assert f"{len(pattern)} characters, which is too large" in refused(f"k LIKE '{pattern}'")


@pytest.mark.parametrize(
    "expression",
    [
        "concat({}, k)",
        "upper({})",
        "lower({})",
        "length({})",
        "substring({}, 2)",
        "replace({}, 'k', 'c')",
        "split_part({}, 'e', 1)",
        "regexp_extract({}, 'e', 0)",
        "{} LIKE 'k%'",
        "CAST({} AS int)",
        "{} < 'z'",
        "coalesce({}, CASE WHEN b THEN {} END)",
        "exact_value({})",
    ],
)
def test_a_text_that_nothing_chooses_is_null(expression: str) -> None:
    assert value(expression.replace("{}", "CASE WHEN i > 100 THEN k END")) is None
