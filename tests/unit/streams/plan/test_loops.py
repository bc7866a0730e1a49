"""Compiling loops: types, order, exported streams, and what is refused."""

from __future__ import annotations

import pytest

from streams.language import QueryError, parse
from streams.language.loops import with_loops
from streams.plan.choice import EvaluationWay, way_of
from streams.plan.compiler import compile_statement
from streams.plan.loops import forwarding
from streams.plan.partitioning import Interacting, partitionings
from streams.plan.program import LoopPlan, Program

CATALOGUE = {"s": {"k": "string", "x": "int", "y": "float"}}


def compiled(text: str, *outputs: str) -> Program:
    """The program of the only loop of some statements."""
    (loop,) = (each for each in with_loops(parse(text), outputs) if each.loop is not None)
    return compile_statement(loop, CATALOGUE)


def plan_of(program: Program) -> LoopPlan:
    assert program.loop is not None
    return program.loop


def test_integers_become_floats_all_round() -> None:
    program = compiled(
        "REGISTER QUERY a ISTREAM(SELECT x AS v FROM s [NOW] UNION ALL SELECT v FROM b [NOW]);"
        "REGISTER QUERY b ISTREAM(SELECT v + 0.5 AS v FROM a [NOW])<NOW>;",
        "a",
    )
    assert program.columns == {"v": "float"}


def test_casts_say_types_that_nothing_else_does() -> None:
    program = compiled(
        "REGISTER QUERY a ISTREAM(SELECT CAST(v AS int) AS v, v > 3 AS b FROM a [NOW] "
        "UNION SELECT x AS v, TRUE AS b FROM s [NOW])<NOW>;",
        "a",
    )
    assert program.columns == {"v": "int", "b": "bool"}


def test_lengths_of_time_are_distances_of_instants() -> None:
    program = compiled(
        "REGISTER QUERY a ISTREAM(SELECT s.x FROM s [RANGE 5 MILLISECONDS], "
        "s [RANGE 1 MILLISECOND] AS t UNION ALL SELECT x FROM a [NOW])<1 SECOND>;",
        "a",
    )
    (member,) = plan_of(program).members
    assert [window.range_ms for window in member.program.windows] == [5 << 16, 1 << 16, 1]
    assert member.delay == 1000 << 16


def test_producers_are_evaluated_before_those_that_read_them_without_delay() -> None:
    program = compiled(
        "REGISTER QUERY a ISTREAM(SELECT x FROM b [NOW] UNION ALL SELECT x FROM s [NOW]);"
        "REGISTER QUERY b ISTREAM(SELECT x FROM s [NOW] UNION ALL SELECT x FROM c [NOW]);"
        "REGISTER QUERY c ISTREAM(SELECT x FROM a [NOW])<NOW>;",
        "a",
    )
    assert plan_of(program).order == (1, 0, 2)


def test_types_that_go_round_are_refused() -> None:
    with pytest.raises(QueryError, match=r"columns of a are depends on b.*CAST"):
        compiled(
            "REGISTER QUERY a ISTREAM(SELECT v FROM b [NOW]);"
            "REGISTER QUERY b ISTREAM(SELECT v FROM a [NOW])<NOW>;",
            "a",
        )


@pytest.mark.parametrize("window", ["[ROWS 1]", "[RANGE 1 SECOND]", "[UNBOUNDED]"])
def test_rstream_that_would_never_end_is_refused(window: str) -> None:
    text = (
        f"REGISTER QUERY a RSTREAM(SELECT x FROM s [NOW] UNION ALL SELECT x FROM a {window})<NOW>;"
    )
    with pytest.raises(QueryError, match="RSTREAM gives all of its relation at each instant"):
        compiled(text, "a")
    compiled(text.replace("<NOW>", "<1 SECOND>"), "a")
    compiled(text.replace(window, "[NOW]"), "a")
    compiled(text.replace("RSTREAM", "ISTREAM"), "a")


def test_a_count_of_nothing_never_ends_either() -> None:
    with pytest.raises(QueryError, match="RSTREAM gives all"):
        compiled("REGISTER QUERY a RSTREAM(SELECT count(*) AS n FROM a [NOW])<NOW>;", "a")


def test_a_loop_that_reads_nothing_from_outside_is_refused() -> None:
    with pytest.raises(QueryError, match="a reads no stream from outside, so no tuple ever comes"):
        compiled("REGISTER QUERY a ISTREAM(SELECT CAST(v AS int) AS v FROM a [NOW])<NOW>;", "a")


def test_lengths_of_time_beyond_all_timestamps_are_refused() -> None:
    text = "REGISTER QUERY a ISTREAM(SELECT x FROM s [RANGE 900000 DAYS])<NOW>;"
    with pytest.raises(QueryError, match="shorter than"):
        compiled(text, "a")
    with pytest.raises(QueryError, match="shorter than"):
        compiled("REGISTER QUERY a ISTREAM(SELECT x FROM s [NOW])<900000 DAYS>;", "a")


class TestSeveralExported:
    TEXT = (
        "REGISTER QUERY a ISTREAM(SELECT k, x FROM s [NOW] UNION ALL SELECT k, x FROM b [NOW]);"
        "REGISTER QUERY b ISTREAM(SELECT k, x + 1 AS x FROM a [NOW] WHERE x < 3)<NOW>;"
    )

    def test_rows_are_tagged(self) -> None:
        program = compiled(self.TEXT, "a", "b")
        assert program.columns == {
            "__stream": "int",
            "__0_0": "string",
            "__0_1": "int",
            "__1_0": "string",
            "__1_1": "int",
        }

    def test_forwarders_read_their_columns_alone(self) -> None:
        program = compiled(self.TEXT, "a", "b")
        forwarder = compile_statement(forwarding(program, "b"), {program.name: program.columns})
        assert forwarder.columns == {"k": "string", "x": "int"}
        assert way_of(forwarder) is EvaluationWay.STATELESS
        assert forwarder.reads == {"a__loop": ("__stream", "__1_0", "__1_1")}


def test_a_loop_is_evaluated_in_one_piece() -> None:
    with pytest.raises(Interacting, match="loop"):
        partitionings(compiled(TestSeveralExported.TEXT, "a"))
