"""What messages say to write in place of functions of other systems works."""

from __future__ import annotations

import pytest

from streams.plan.other_systems import known_elsewhere
from tests.unit.streams.running import program


@pytest.mark.parametrize("written", sorted(set(known_elsewhere.values())))
def test_what_is_written_for_functions_of_other_systems_can_be_compiled(written: str) -> None:
    given = written.replace("from", "1").replace("length)", "2)")
    text = "length(a)" if written == "length(a)" else given
    kinds = {"a": "string" if "a, 1, 2" in text or "length(a)" in text or "trim" in text else "int"}
    known = {"s": {**kinds, "b": kinds["a"], "c": "bool"}}
    program(f"RSTREAM(SELECT {text} AS y FROM s [NOW])", known)
