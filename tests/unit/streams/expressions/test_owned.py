"""Functions that owners install, in statements."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest

from streams.evaluate.engine import EvaluationError
from streams.expressions import owned
from streams.language import QueryError
from tests.owned_functions import install
from tests.unit.streams.running import program, run

ROWS = [(1000, "a", 10, 1.5, True), (2000, None, None, None, None), (3000, "c", 0, -40.0, False)]


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    install(
        monkeypatch,
        *("fahrenheit", "labelled", "too_short", "of_another_type", "reciprocal", "no_function"),
        absent="tests.owned_functions:absent",
        abs="tests.owned_functions:fahrenheit",
    )


def test_they_are_called_like_others_with_nulls_as_they_are() -> None:
    found = run(
        "RSTREAM(SELECT labelled(k, i) AS l, fahrenheit(x) AS f, fahrenheit(i) AS g FROM s [NOW])",
        ROWS,
    )
    assert found == [
        (1000, "a-10", 34.7, 50.0),
        (2000, "?-?", None, None),
        (3000, "c-0", -40.0, 32.0),
    ]


def test_they_stand_in_conditions_aggregates_and_joins() -> None:
    grouped = run("RSTREAM(SELECT sum(fahrenheit(x)) AS f FROM s [UNBOUNDED])", ROWS)
    assert grouped == [(1000, 34.7), (2000, 34.7), (3000, pytest.approx(-5.3))]
    # A join evaluates its condition over all pairs at once, in two dimensions.
    joined = "FROM s [UNBOUNDED] AS a, s [UNBOUNDED] AS b WHERE fahrenheit(a.x) < fahrenheit(b.x)"
    assert run(f"RSTREAM(SELECT a.k AS k, b.k AS l {joined})", ROWS) == [(3000, "c", "a")]


def test_floats_that_are_no_numbers_are_null() -> None:
    assert run("RSTREAM(SELECT reciprocal(i) AS r FROM s [NOW])", ROWS) == [
        (1000, 0.1),
        (2000, None),
        (3000, None),
    ]


def test_a_program_names_those_that_it_calls_at_any_depth() -> None:
    assert program("RSTREAM(SELECT abs(x) AS f FROM s [NOW])").functions == {}
    inner = "SELECT k FROM t [NOW] WHERE fahrenheit(x) > 3"
    of_all = f"RSTREAM(SELECT labelled(k, i) AS l FROM s [NOW] WHERE k IN ({inner}))"
    assert [*program(of_all).functions] == ["fahrenheit", "labelled"]
    derived = f"RSTREAM(SELECT d.k AS k FROM ({inner}) AS d LEFT JOIN s [NOW] AS e ON "
    derived += "labelled(e.k, 1) = d.k)"
    assert [*program(derived).functions] == ["fahrenheit", "labelled"]


def test_the_languages_own_functions_come_first() -> None:
    assert run("RSTREAM(SELECT abs(x) AS f FROM s [NOW])", ROWS[2:]) == [(3000, 40.0)]
    assert "abs" not in owned.owned_names()


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("fahrenheit(k)", "fahrenheit takes float, not string"),
        ("fahrenheit(x, x)", "fahrenheit takes float, not 2 arguments"),
        ("fahrenheit()", "fahrenheit takes float, not 0 arguments"),
        ("farenheit(x)", "there is no function farenheit; did you mean fahrenheit?"),
        ("absent(x)", r"function absent \(tests.owned_functions:absent\) cannot be imported"),
        ("no_function(x)", "no_function .* is no function declared by"),
    ],
)
def test_what_cannot_be_called_is_refused(call: str, problem: str) -> None:
    with pytest.raises(QueryError, match=problem):
        program(f"RSTREAM(SELECT {call} AS c FROM s [NOW])")


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("too_short(x)", "too_short gave 0 values of type int64, not 1 of type int64"),
        ("of_another_type(x)", "gave 1 values of type double, not 1 of type int64"),
    ],
)
def test_a_result_that_does_not_fit_is_an_error(call: str, problem: str) -> None:
    with pytest.raises(EvaluationError, match=problem):
        run(f"RSTREAM(SELECT {call} AS c FROM s [NOW])", ROWS[:1])


@pytest.mark.parametrize("wrong", [{"arguments": []}, {"result": "text"}, {"cost": 0.0}])
def test_a_declaration_that_is_wrong_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"text|argument|cost"):
        owned.owned(**{"arguments": ["int"], "result": "int", **wrong})  # pyright: ignore


def test_the_fingerprint_is_that_of_all_code_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    body = "from streams.expressions.owned import owned\n\n"
    body += "@owned(arguments=['int'], result='int')\ndef same(x):\n    return x\n"
    package = tmp_path / "weather"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "heat.py").write_text(body)

    def fingerprint(helper: str) -> str:
        (package / "tables.py").write_text(helper)
        for name in [each for each in sys.modules if each.startswith("weather")]:
            del sys.modules[name]
        install(monkeypatch, same="weather.heat:same")
        owned.fingerprint_of.cache_clear()
        return owned.load("same").fingerprint

    first = fingerprint("one = 1")
    assert len(first) == 16
    assert fingerprint("one = 2") != first
    assert fingerprint("one = 1") == first


def test_a_result_may_be_in_chunks() -> None:
    @owned.owned(arguments=["int"], result="int")
    def chunked(values: pa.Array) -> pa.ChunkedArray:
        return pa.chunked_array([values, values])

    found = owned.checked("f", chunked, 4, chunked.compute(pa.array([1, 2])))
    assert found.to_pylist() == [1, 2, 1, 2]
