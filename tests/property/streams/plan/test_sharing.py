"""A statement that forwards the rows of another one gives the rows of the statement itself.

The other one is written differently: its columns have other names and another order, there may be
more of them, its source has another alias. It may also differ in what it computes; then nothing is
shared, unless the rows are the same all the same.
"""

from __future__ import annotations

import numpy as np
import pytest

from streams.language import parse
from streams.language.ast import Statement
from streams.plan.compiler import compile_statement
from streams.plan.sharing import Computation, computations, forwarding
from tests.long_tests import mostly_long
from tests.property.streams.evaluate.stepwise.test_passes import catalogue, evaluations, tuples
from tests.property.streams.plan.test_partial import flat, passed_through, rows_at, statement

STATEMENTS_AT_ONCE = 40

CHANGES = [
    *(("RSTREAM(", "ISTREAM("), ("ISTREAM(", "DSTREAM("), ("SELECT ", "SELECT DISTINCT ")),
    *(("MILLISECONDS SLIDE", "SECONDS SLIDE"), (" WHERE x > 0", " WHERE x >= 0")),
    *(("SELECT ", "SELECT count(*) + 7 AS more, "), (" AS o1", " AS o9, i AS o1")),
    *((" HAVING count(*) > 1", " HAVING count(*) > 2"), ("TOP 2 BY", "TOP 1 BY")),
    *((" GROUP BY k", " GROUP BY i"), ("count(", "sum("), ("max(", "min("), ("s [", "t [")),
]


def items_of(text: str) -> list[str]:
    """The SELECT list: no comma stands in an item of these statements but in parentheses."""
    listed = text.partition("SELECT ")[2].partition(" FROM ")[0]
    items = [""]
    depth = 0
    for sign in listed:
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and not depth:
            items.append("")
        else:
            items[-1] += sign
    return [item.strip() for item in items]


def written_otherwise(own: Statement, rng: np.random.Generator) -> str:
    """The same computation under the name `g`."""
    listed = items_of(own.text)
    items = [f"{item.rpartition(' AS ')[0]} AS o{n}" for n, item in enumerate(listed)]
    order = list(range(len(items)))
    # Of rows that are equal by what TOP names, their columns decide.
    if " TOP " not in own.text:
        if "RSTREAM(" in own.text and rng.random() < 0.5:
            items.append("count(*) + 7 AS more")
        order = rng.permutation(len(items)).tolist()
    text = own.text.replace(", ".join(listed), ", ".join(items[n] for n in order), 1)
    text = text.replace("REGISTER QUERY q ", "REGISTER QUERY g ")
    if rng.random() < 0.5:
        text = text.replace("s.x", "u.x").replace("]", "] AS u", 1)
    return text


def computed(one: Statement, other: Statement) -> tuple[Computation, Computation]:
    names = {each: list(compile_statement(each, catalogue).columns) for each in (one, other)}
    found = computations({each.name: (each, columns) for each, columns in names.items()})
    return found[one.name], found[other.name]


@pytest.mark.parametrize("block", mostly_long(range(5)))
def test_forwarded_rows_are_those_of_the_statement(block: int) -> None:
    fresh = int(np.random.SeedSequence().generate_state(1)[0])
    for seed in (*range(block * STATEMENTS_AT_ONCE, (block + 1) * STATEMENTS_AT_ONCE - 1), fresh):
        rng = np.random.default_rng(seed)
        own = statement(rng)
        (other,) = parse(written_otherwise(own, rng))
        mine, theirs = computed(own, other)
        told = f"seed {seed}: {own.text}\n{other.text}"
        columns = mine.columns_of(theirs)
        assert columns is not None, told
        assert_forwards(own, other, columns, rng, told)


@pytest.mark.parametrize("block", mostly_long(range(5)))
def test_what_computes_something_else_shares_nothing(block: int) -> None:
    fresh = int(np.random.SeedSequence().generate_state(1)[0])
    unequal = 0
    for seed in (*range(block * STATEMENTS_AT_ONCE, (block + 1) * STATEMENTS_AT_ONCE - 1), fresh):
        rng = np.random.default_rng(seed)
        own = statement(rng)
        text = written_otherwise(own, rng)
        old, new = CHANGES[int(rng.integers(len(CHANGES)))]
        (other,) = parse(text.replace(old, new, 1))
        told = f"seed {seed}: {own.text}\n{other.text}"
        try:
            mine, theirs = computed(own, other)
        except ValueError:
            continue
        columns = mine.columns_of(theirs)
        if columns is None:
            unequal += 1
        elif old in text:
            assert_forwards(own, other, columns, rng, told)
    assert unequal


def assert_forwards(
    own: Statement,
    other: Statement,
    columns: dict[str, str],
    rng: np.random.Generator,
    told: str,
) -> None:
    whole, computing = (compile_statement(each, catalogue) for each in (own, other))
    forwards = compile_statement(
        forwarding(own.name, other.name, columns), {other.name: computing.columns}
    )
    assert forwards.columns == whole.columns, told
    assert forwards.stateless
    rows = tuples(rng)
    until_ms = rows[-1][0] + int(rng.choice([0, 1, 100]))
    expected, _ = next(evaluations(whole, {"s": rows}, until_ms, rng, only=1))
    between = passed_through(computing, {"s": flat(rows)}, until_ms, rng)
    emitted = passed_through(forwards, {other.name: between}, until_ms, rng)
    assert rows_at(emitted) == rows_at(expected), told
