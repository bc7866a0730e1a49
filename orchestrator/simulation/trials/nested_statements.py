"""Random statements of several levels: sub-queries, outer joins, operations on relations; loops.

As those of one level (`orchestrator/simulation/trials/statements.py`) they read streams with the
columns `key int, value int`, and have these columns, without NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from foundation.loop_limits import LoopLimits
from streams.language.ast import Statement
from streams.language.loops import LOOP_INFIX, with_loops
from streams.plan.compiler import compile_statement
from streams.plan.loops import forwarding
from streams.plan.program import Program

MOST_READ = {"ISTREAM": 2, "DSTREAM": 2, "RSTREAM": 1}
"""Tuples of recordings that a tuple is made of which such statements read, at most: RSTREAM shows
those of a relation again and again."""

RELATIONS: Mapping[str, str] = {
    "derived": (
        "SELECT d.key AS key, (d.value + c.value) % 101 AS value "
        "FROM (SELECT key, sum(value) AS value FROM {one} [{window}] GROUP BY key) AS d, "
        "{other} [{another}] AS c WHERE d.key = c.key"
    ),
    "in": (
        "SELECT key, value FROM {one} [{window}] "
        "WHERE key {maybe}IN (SELECT key FROM {other} [{another}] WHERE value >= {least})"
    ),
    "exists": (
        "SELECT a.key AS key, a.value AS value FROM {one} [{window}] AS a WHERE {maybe}EXISTS "
        "(SELECT 1 AS one FROM {other} [{another}] AS b WHERE b.key = a.key AND b.value > a.value)"
    ),
    "compared": (
        "SELECT key, value FROM {one} [{window}] "
        "WHERE value {sign} {some} (SELECT value FROM {other} [{another}] WHERE key > 2)"
    ),
    "value": (
        "SELECT a.key AS key, a.value + coalesce("
        "(SELECT max(b.value) FROM {other} [{another}] AS b WHERE b.key = a.key), -1) AS value "
        "FROM {one} [{window}] AS a"
    ),
    "outer join": (
        "SELECT coalesce(l.key, r.key) AS key, "
        "coalesce(l.value, 50) + 2 * coalesce(r.value, -1) AS value "
        "FROM {one} [{window}] AS l {side} JOIN {other} [{another}] AS r "
        "ON l.key = r.key AND l.value <> r.value"
    ),
    "set": (
        "SELECT key, value % 5 AS value FROM {one} [{window}] {operator} "
        "SELECT key, value % 5 AS value FROM {other} [{another}]"
    ),
}
"""What statements of several levels show, of one or two streams."""

CHOICES: Mapping[str, Sequence[str]] = {
    "to_stream": ["ISTREAM", "ISTREAM", "ISTREAM", "DSTREAM", "RSTREAM"],
    "maybe": ["", "NOT "],
    "sign": ["<", ">=", "=", "<>"],
    "some": ["ALL", "ANY"],
    "side": ["LEFT", "RIGHT", "FULL"],
    "operator": ["UNION", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"],
    "delay": ["<NOW>", "<NOW>", "<70 MILLISECONDS>", "<1 SECOND>"],
}

INNER = "_inner"
"""Ends the names of streams that nothing outside of a loop reads."""

LOOPS: Mapping[str, str] = {
    # Forgets a millisecond as soon as it is over, if the delay is <NOW>.
    "echo": (
        "REGISTER QUERY {name} ISTREAM(SELECT key, value FROM {one} [NOW] UNION ALL "
        "SELECT key, value - 34 AS value FROM {name} [NOW] WHERE value >= 34){delay};"
    ),
    # What is bought is paid from what is left, which all history has made.
    "trading": (
        "REGISTER QUERY {name} ISTREAM(SELECT m.key AS key, m.value AS value FROM {one} [NOW] AS "
        "m, {name}_left [PARTITION BY key ROWS 1] AS r WHERE m.key = r.key AND m.value <= r.value);"
        " REGISTER QUERY {name}_left ISTREAM(SELECT key, 3 * value AS value FROM {other} [NOW] "
        "UNION ALL SELECT b.key AS key, r.value - b.value AS value FROM {name} [NOW] AS b, "
        "{name}_left [PARTITION BY key ROWS 1] AS r WHERE b.key = r.key){delay};"
    ),
    # Nested cycles over groups, one of which nobody else reads.
    "groups": (
        "REGISTER QUERY {name}_inner ISTREAM(SELECT key, sum(value) % 97 AS value "
        "FROM {one} [{window}] GROUP BY key UNION ALL SELECT key, value - 30 AS value FROM {name} "
        "[NOW] WHERE value >= 50 UNION ALL SELECT key, value - 40 AS value FROM {name}_inner "
        "[NOW] WHERE value >= 60)<NOW>; "
        "REGISTER QUERY {name} ISTREAM(SELECT key, max(value) AS value "
        "FROM {name}_inner [RANGE {window_s} SECONDS] GROUP BY key){delay};"
    ),
    # So many instants that a millisecond is left, and taken up again.
    "long": (
        "REGISTER QUERY {name}_inner ISTREAM(SELECT key, value % 8 AS value FROM {one} [NOW] UNION "
        "ALL SELECT key, value + 1 AS value FROM {name}_inner [NOW] WHERE value < 28 UNION ALL "
        "SELECT key, value - 30 AS value FROM {name} [NOW] WHERE value > 99)<NOW>; "
        "REGISTER QUERY {name} ISTREAM(SELECT key, value FROM {name}_inner [NOW] "
        "WHERE value % 10 = 9 AND key {maybe}IN (SELECT key FROM {other} [RANGE 1 SECOND]));"
    ),
}
"""Statements that read each other. All streams but those of `INNER` are read outside."""


def nested_statement(
    rng: np.random.Generator, name: str, factors: Mapping[str, int], longest_s: int
) -> str:
    """A statement with a sub-query, an outer join or an operation on relations; parameters as of
    `random_statement`."""
    form = str(rng.choice([*RELATIONS]))
    stated = _stated(rng, f"{{to_stream}}({RELATIONS[form]})", name, factors, longest_s)
    return f"REGISTER QUERY {name} {stated};"


def loop_statements(
    rng: np.random.Generator, name: str, factors: Mapping[str, int], longest_s: int
) -> str:
    """The statements of a loop, the first of which has this name, or begins with it; parameters as
    of `random_statement`."""
    return _stated(rng, LOOPS[str(rng.choice([*LOOPS]))], name, factors, longest_s)


def _stated(
    rng: np.random.Generator, form: str, name: str, factors: Mapping[str, int], longest_s: int
) -> str:
    """A form with its streams, windows and choices."""
    chosen = {each: str(rng.choice(choices)) for each, choices in CHOICES.items()}
    known = [each for each in factors if factors[each] <= MOST_READ[chosen["to_stream"]]]
    one, other = (str(rng.choice(known)) for _ in range(2))
    window_s = int(rng.integers(1, longest_s + 1))
    windows = [
        *("NOW", f"RANGE {window_s} SECONDS", "RANGE 500 MILLISECONDS SLIDE 250 MILLISECONDS"),
        f"PARTITION BY key ROWS 2 RANGE {window_s} SECONDS",
    ]
    return form.format(
        name=name,
        one=one,
        other=other,
        window_s=window_s,
        window=rng.choice(windows),
        another=rng.choice(windows),
        least=rng.integers(10, 40),
        **chosen,
    )


def read_outside(statements: Sequence[Statement]) -> list[str]:
    """The streams of statements that others may read."""
    return [each.name for each in statements if not each.name.endswith(INNER)]


def fragments_of(
    statements: Sequence[Statement], columns: Mapping[str, Mapping[str, str]], limits: LoopLimits
) -> dict[str, Program]:
    """The programs of the fragments of one statement, or of those of a loop; producers first.

    Parameters
    ----------
    columns
        Of the streams that they read.
    limits
        Of loops.
    """
    outputs = read_outside(statements)
    programs: dict[str, Program] = {}
    streams = dict(columns)
    for each in with_loops(statements, outputs, limits):
        loop = programs.get(outputs[0] + LOOP_INFIX)
        statement = each if loop is None else forwarding(loop, each.name)
        programs[each.name] = compile_statement(statement, streams)
        streams[each.name] = programs[each.name].columns
    return programs
