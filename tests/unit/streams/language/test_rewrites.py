"""What messages say to write in place of EXCEPT and INTERSECT works."""

from __future__ import annotations

import pytest

from streams.language import QueryError, parse
from streams.plan.compiler import compile_statement
from streams.plan.other_systems import known_elsewhere
from tests.unit.streams.running import output, program

columns = {"k": "string"}


@pytest.mark.parametrize(
    ("word", "rows"),
    [("EXCEPT", ["a", "a", "b", "a"]), ("INTERSECT", ["b"])],
)
def test_the_rewrite_of_a_set_operation_gives_its_rows(word: str, rows: list[str]) -> None:
    text = f"REGISTER QUERY q RSTREAM(SELECT k FROM a [NOW] {word} SELECT k FROM b [NOW]);"
    with pytest.raises(QueryError, match=f"Vivace has no {word} yet; write REGISTER") as raised:
        parse(text)
    both, rest = parse(raised.value.message.partition("; write ")[2])
    union = compile_statement(both, {"a": columns, "b": columns})
    left = compile_statement(rest, {"both": union.columns})
    between = output(union, {"a": [(1, "a"), (2, "b")], "b": [(3, "b"), (3, "c")]})
    # At 1 ms, 2 ms and 3 ms.
    assert [k for _, k in output(left, {"both": between})] == rows


@pytest.mark.parametrize("written", sorted(set(known_elsewhere.values())))
def test_what_is_written_for_functions_of_other_systems_can_be_compiled(written: str) -> None:
    given = written.replace("from", "1").replace("length)", "2)")
    text = "length(a)" if written == "length(a)" else given
    kinds = {"a": "string" if "a, 1, 2" in text or "length(a)" in text or "trim" in text else "int"}
    known = {"s": {**kinds, "b": kinds["a"], "c": "bool"}}
    program(f"RSTREAM(SELECT {text} AS y FROM s [NOW])", known)
