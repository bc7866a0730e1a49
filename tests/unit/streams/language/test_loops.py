"""Statements that read each other: which are loops, and where delays have to be."""

from __future__ import annotations

import pytest

from foundation.loop_limits import Beyond, LoopLimits
from streams.language import QueryError, parse
from streams.language.loops import MOST_TRIED, loops_of, with_delays, with_loops
from streams.language.views import with_relations


def statement(name: str, *reads: str, delay: str = "", to_stream: str = "ISTREAM") -> str:
    union = " UNION ALL ".join(f"SELECT x FROM {one} [NOW]" for one in reads)
    return f"REGISTER QUERY {name} {to_stream}({union}){delay};"


def test_a_loop_has_the_name_of_the_only_stream_that_is_read() -> None:
    text = statement("a", "s", "b") + statement("b", "a", delay="<NOW>") + statement("c", "b")
    loop, reader = with_loops(parse(text), ["c"], LoopLimits(7, 50, Beyond.CUT))
    assert loop.name == "b"
    assert loop.loop is not None
    assert [each.name for each in loop.loop.statements] == ["a", "b"]
    assert reader.name == "c"
    (again,) = parse(loop.text)
    assert again.loop is not None
    assert again.loop.exported == ("b",)
    assert again.loop.limits == LoopLimits(7, 50, Beyond.CUT)
    assert [each.text for each in again.loop.statements] == [
        each.text for each in loop.loop.statements
    ]


def test_several_streams_that_are_read_are_forwarded() -> None:
    text = statement("a", "s", "b") + statement("b", "a", delay="<NOW>")
    names = [each.name for each in with_loops(parse(text), ["a", "b"])]
    assert names == ["a__loop", "a", "b"]


def test_all_streams_are_given_if_none_is_read() -> None:
    text = statement("a", "s", "b") + statement("b", "a", delay="<NOW>")
    assert [each.name for each in with_loops(parse(text), [])] == ["a__loop", "a", "b"]


def test_loops_that_do_not_read_each_other_both_ways_are_several() -> None:
    text = statement("a", "s", "a", delay="<NOW>") + statement("b", "a", "b", delay="<NOW>")
    loops = [each.name for each in with_loops(parse(text), ["b"]) if each.loop is not None]
    assert loops == ["a", "b"]


def test_a_delay_makes_a_loop_of_one_statement() -> None:
    (loop,) = with_loops(parse(statement("a", "s", delay="<5 SECONDS>")), ["a"])
    assert loop.loop is not None


def test_statements_without_delays_stay_what_they_are() -> None:
    statements = parse(statement("a", "s") + statement("b", "a"))
    assert with_loops(statements, ["b"]) == statements


def test_a_relation_of_a_loop_is_in_its_statements_alone() -> None:
    text = "REGISTER QUERY r SELECT x FROM a [ROWS 1]; " + statement("a", "s", "b")
    text += "REGISTER QUERY b ISTREAM(SELECT x FROM r)<NOW>;"
    (loop,) = with_loops(with_relations(parse(text)), ["b"])
    assert loop.loop is not None
    assert "FROM (SELECT x FROM a [ROWS 1]) AS r" in loop.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (statement("a", "s", "a"), "a reads its own output at the same instant: .* of a;"),
        (statement("a", "b") + statement("b", "a"), "a, b read each other .* parenthesis of a;"),
        (
            # The delay is on another cycle.
            statement("a", "b", "c") + statement("b", "a") + statement("c", "a", delay="<NOW>"),
            "a, b read each other",
        ),
        ("REGISTER LOOP a OF a STEPS 9 CUT (" + statement("a", "s")[:-1] + ")", "finds the loop"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        with_loops(parse(text), ["a"])


def test_relations_alone_have_no_cure() -> None:
    text = "REGISTER QUERY a SELECT x FROM b; REGISTER QUERY b SELECT x FROM a;"
    with pytest.raises(QueryError, match="the relation a depends on itself"):
        with_relations(parse(text))


class TestDelays:
    def test_one_is_enough_for_two_cycles_through_a_statement(self) -> None:
        text = statement("a", "b") + statement("b", "a", "c") + statement("c", "b")
        assert with_delays(parse(text)) == text.replace(
            "SELECT x FROM c [NOW]);", "SELECT x FROM c [NOW])<NOW>;"
        )

    def test_what_is_delayed_stays(self) -> None:
        text = statement("a", "b") + statement("b", "a", delay="<1 DAY>")
        assert with_delays(parse(text)) == text

    def test_the_result_has_no_cycle_without_a_delay(self) -> None:
        names = [f"q{place}" for place in range(MOST_TRIED + 3)]
        text = "".join(statement(name, *names) for name in names)
        delayed = with_delays(parse(text))
        (loop,) = loops_of({each.name: each for each in parse(delayed)})
        assert loop == set(names)
        with_loops(parse(delayed), names)
