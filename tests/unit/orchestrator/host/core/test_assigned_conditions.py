"""A statement that a host is assigned must not end the host."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.host.core.events import Report
from streams.evaluate.engine import FragmentEngine
from streams.expressions.typed import MOST_DEPTH
from streams.language import parse
from streams.language.errors import QueryError
from streams.plan.compiler import compile_statement
from tests.driven_host import COLUMNS, Driven, assigned, assignment_of


def selecting(condition: str) -> str:
    return f"REGISTER QUERY f RSTREAM(SELECT number FROM s [NOW] WHERE {condition});"


def test_an_engine_evaluates_any_number_of_conditions() -> None:
    many = " AND ".join(f"number <> {n}" for n in range(500))
    (statement,) = parse(selecting(many))
    FragmentEngine(compile_statement(statement, {"s": COLUMNS}))


def test_an_engine_evaluates_the_deepest_condition_that_is_compiled() -> None:
    (statement,) = parse(selecting("NOT " * (MOST_DEPTH - 1) + "number > 1"))
    FragmentEngine(compile_statement(statement, {"s": COLUMNS}))


@pytest.mark.parametrize("depth", [MOST_DEPTH, 340])
def test_a_condition_that_is_nested_more_deeply_is_refused(depth: int) -> None:
    (statement,) = parse(selecting("NOT " * depth + "number > 1"))
    with pytest.raises(QueryError, match="nested too deeply"):
        compile_statement(statement, {"s": COLUMNS})


def test_a_statement_that_cannot_be_evaluated_does_not_end_its_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def breaks(_program: object) -> None:
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr("ha.replica.FragmentEngine", breaks)
    host = Driven("one")
    fragment = msgspec.structs.replace(
        assigned("primary", peer_replica="two"), statement=selecting("number > 1")
    )
    host.assign(assignment_of(fragment))
    told = [(each.kind, each.detail) for each in host.take(Report)]
    assert told == [("assignment refused", "RecursionError: maximum recursion depth exceeded")]
