"""Which statements compute the same."""

from __future__ import annotations

import doctest

import pytest

from streams.language import parse
from streams.plan import sharing
from streams.plan.compiler import compile_statement
from streams.plan.sharing import Computation, computations

WINDOW = "[RANGE 9 SECONDS]"


def computed(*statements: str) -> dict[str, Computation]:
    """Of statements named f, g, …, over the streams s and t."""
    catalogue = {name: {"k": "string", "v": "int"} for name in ("s", "t")}
    found: dict[str, tuple[sharing.Statement, list[str]]] = {}
    for name, text in zip("fghijk", statements, strict=False):
        (statement,) = parse(f"REGISTER QUERY {name} {text};")
        catalogue[name] = compile_statement(statement, catalogue).columns
        found[name] = statement, list(catalogue[name])
    return computations(found)


def test_the_examples_hold() -> None:
    assert doctest.testmod(sharing).failed == 0


def shares(one: str, other: str) -> dict[str, str] | None:
    found = computed(one, other)
    return found["f"].columns_of(found["g"])


@pytest.mark.parametrize(
    ("one", "other", "columns"),
    [
        ("ISTREAM(SELECT k, v FROM s [ROWS 3])", "ISTREAM(SELECT v, k AS q FROM s [ROWS 3])",
         {"k": "q", "v": "v"}),
        ("RSTREAM(SELECT k FROM s [ROWS 3])", "RSTREAM(SELECT v, k FROM s [ROWS 3])", {"k": "k"}),
        ("ISTREAM(SELECT k FROM s [ROWS 3])", "ISTREAM(SELECT v, k FROM s [ROWS 3])", None),
        ("DSTREAM(SELECT k FROM s [ROWS 3])", "ISTREAM(SELECT k FROM s [ROWS 3])", None),
        ("RSTREAM(SELECT k FROM s [ROWS 3])", "RSTREAM(SELECT k FROM t [ROWS 3])", None),
        ("RSTREAM(SELECT k FROM s [ROWS 3] GROUP BY k)",
         "RSTREAM(SELECT k, max(v) AS m FROM s [ROWS 3] GROUP BY k)", {"k": "k"}),
        ("RSTREAM(SELECT k FROM s [ROWS 3])", "RSTREAM(SELECT k FROM s [ROWS 4])", None),
        ("RSTREAM(SELECT DISTINCT k FROM s [ROWS 3])",
         "RSTREAM(SELECT DISTINCT k, v FROM s [ROWS 3])", None),
        ("RSTREAM(SELECT 1 AS o FROM s [ROWS 3])",
         "RSTREAM(SELECT 1 AS o, count(*) AS n FROM s [ROWS 3])", None),
        ("RSTREAM(SELECT a.k AS x FROM s [ROWS 3] AS a, t [NOW] AS b WHERE a.v = b.v)",
         "RSTREAM(SELECT c.k AS y FROM s [ROWS 3] AS c, t [NOW] AS d WHERE c.v = d.v)", {"x": "y"}),
        ("RSTREAM(SELECT a.k AS x FROM s [ROWS 3] AS a, s [NOW] AS b WHERE a.v = b.v)",
         "RSTREAM(SELECT b.k AS x FROM s [ROWS 3] AS a, s [NOW] AS b WHERE a.v = b.v)", None),
        ("RSTREAM(SELECT k FROM s [ROWS 3] UNION ALL SELECT k FROM t [ROWS 3])",
         "RSTREAM(SELECT k FROM t [ROWS 3] UNION ALL SELECT k FROM s [ROWS 3])", None),
        ("RSTREAM(SELECT k FROM s [ROWS 3] UNION ALL SELECT k FROM t [ROWS 3])",
         "RSTREAM(SELECT v, k AS q FROM s [ROWS 3] UNION ALL SELECT v, k FROM t [ROWS 3])",
         {"k": "q"}),
        ("RSTREAM(SELECT k, v FROM s [ROWS 3] TOP 2 BY v)",
         "RSTREAM(SELECT k, v AS w FROM s [ROWS 3] TOP 2 BY v)", {"k": "k", "v": "w"}),
        ("RSTREAM(SELECT k, v FROM s [ROWS 3] TOP 2 BY v)",
         "RSTREAM(SELECT v, k FROM s [ROWS 3] TOP 2 BY v)", None),
    ],
)  # fmt: skip
def test_statements_give_each_others_rows(
    one: str, other: str, columns: dict[str, str] | None
) -> None:
    assert shares(one, other) == columns


@pytest.mark.parametrize(
    "text",
    [
        "RSTREAM(SELECT * FROM s [ROWS 3])",
        # Whether `k` is the column or what it is renamed from is not looked into.
        f"RSTREAM(SELECT upper(k) AS k, count(*) AS n FROM s {WINDOW} GROUP BY k)",
    ],
)
def test_what_is_not_understood_is_not_compared(text: str) -> None:
    assert computed(text) == {}
    assert computed(text, "RSTREAM(SELECT k FROM f [ROWS 3])") == {}


def test_a_source_counts_as_what_it_computes() -> None:
    pick, sum_up = "RSTREAM(SELECT k, v FROM s [NOW] WHERE v > 3)", "RSTREAM(SELECT k, sum(v) AS t"
    found = computed(
        pick,
        pick.replace("v >", "s.v >"),
        pick.replace("3", "4"),
        f"{sum_up} FROM f {WINDOW} GROUP BY k)",
        f"{sum_up} FROM g {WINDOW} GROUP BY k)",
        f"{sum_up} FROM h {WINDOW} GROUP BY k)",
    )
    assert found["i"].columns_of(found["j"]) == {"k": "k", "t": "t"}
    assert found["i"].columns_of(found["k"]) is None


def test_long_chains_are_compared_in_whatever_order_they_stand() -> None:
    """What reads a stream twice is no longer for that."""
    (first,) = parse("REGISTER QUERY c0 RSTREAM(SELECT k FROM s [NOW]);")
    chain = {"c0": (first, ["k"])}
    for number in range(1, 500):
        read = f"SELECT k FROM c{number - 1} [NOW]"
        (statement,) = parse(f"REGISTER QUERY c{number} RSTREAM({read} UNION ALL {read});")
        chain[f"c{number}"] = statement, ["k"]
    found = computations(chain)
    assert len(found) == 500
    assert found == computations(dict(reversed(chain.items())))
    assert max(len(each.form) for each in found.values()) < 1000


def test_a_cycle_is_not_compared() -> None:
    texts = {"a": "b", "b": "a", "c": "b"}
    cycle = {
        name: (parse(f"REGISTER QUERY {name} RSTREAM(SELECT k FROM {read} [NOW]);")[0], ["k"])
        for name, read in texts.items()
    }
    assert computations(cycle) == {}
