"""What a query graph refuses, and the order it gives."""

from __future__ import annotations

import math

import pytest

from placement.errors import GraphError
from placement.graph import Link, Operator, QueryGraph


def link(source: str, target: str, rate_bytes_s: float = 1, tuples_s: float = 1) -> Link:
    return Link(source=source, target=target, rate_bytes_s=rate_bytes_s, tuples_s=tuples_s)


def graph(operators: tuple[Operator, ...], *links: Link) -> QueryGraph:
    return QueryGraph(name="q", operators=operators, links=links)


source = Operator(name="s", pinned="site")
a, b = Operator(name="a"), Operator(name="b")


def test_order_is_topological_and_independent_of_the_input_order():
    links = (link("s", "b"), link("b", "a"))
    assert graph((a, b, source), *links).order == ("s", "b", "a")
    assert graph((source, b, a), *reversed(links)).order == ("s", "b", "a")
    assert graph((a, b, source), *links).to_place == ("b", "a")


@pytest.mark.parametrize(
    ("operators", "links", "message"),
    [
        ((a, a), (), "query q, operator a: occurs twice"),
        ((source, a), (link("s", "c"),), "link s → c: no operator is named 'c'"),
        ((source, a), (link("s", "a"), link("s", "a")), "link s → a: occurs twice"),
        ((source, a), (link("s", "a", -1),), "link s → a: rate_bytes_s -1 is not"),
        ((source, a), (link("s", "a", math.nan),), "rate_bytes_s nan is not a number ≥ 0"),
        ((source, a), (link("s", "a", 1e13),), "is not a number ≥ 0 and at most 1e"),
        ((source, a), (link("s", "a", 1, -2),), "link s → a: tuples_s -2 is not"),
        ((source, Operator(name="a", cost_us=-1)), (link("s", "a"),), "operator a: cost_us -1"),
        ((source, a, b), (link("s", "a"),), "operator b: has no input"),
        (
            (source, Operator(name="a", flows_to=frozenset({"n"}))),
            (link("s", "a"),),
            "operator a: has no place, so it flows nowhere",
        ),
        ((a, b), (link("a", "b"), link("b", "a")), "operators a, b: feed each other in a cycle"),
        (
            (source, a, b),
            (link("s", "a"), link("a", "b"), link("b", "a")),
            "operators a, b: feed each other in a cycle",
        ),
    ],
)
def test_a_graph_that_cannot_be_placed_is_refused(
    operators: tuple[Operator, ...], links: tuple[Link, ...], message: str
):
    with pytest.raises(GraphError, match=message):
        graph(operators, *links)


def test_operators_behind_a_cycle_are_not_blamed():
    sink = Operator(name="sink", pinned="site")
    with pytest.raises(GraphError, match="operators a, b: feed"):
        graph((a, b, sink), link("a", "b"), link("b", "a"), link("b", "sink"))
