"""What is left out depends on state and tuples, not on how input is cut, nor on snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.evaluate import skipping
from streams.evaluate.engine import EvaluationError, FragmentEngine
from streams.plan.choice import EvaluationWay, way_of
from streams.plan.program import Program
from tests.fragile import FATAL, fragile_function
from tests.unit.streams.running import Row, chunk, program, sensor

shapes = [
    (EvaluationWay.STATELESS, "RSTREAM(SELECT k, fragile(i) AS i FROM s [NOW] WHERE x < 50)"),
    (
        EvaluationWay.PANES,
        "RSTREAM(SELECT k, sum(fragile(i)) AS n, count(*) AS c "
        "FROM s [RANGE 20 MILLISECONDS SLIDE 5 MILLISECONDS] GROUP BY k)",
    ),
    (
        EvaluationWay.SESSIONS,
        "RSTREAM(SELECT k, sum(fragile(i)) AS n, count(*) AS c "
        "FROM s [SESSION 6 MILLISECONDS PARTITION BY k] GROUP BY k)",
    ),
    (EvaluationWay.NEWEST, "ISTREAM(SELECT k, fragile(i) AS i FROM s [PARTITION BY k ROWS 2])"),
    (
        EvaluationWay.JOIN,
        "RSTREAM(SELECT a.k AS k, fragile(a.i) AS i, b.i AS j "
        "FROM s [RANGE 8 MILLISECONDS SLIDE 8 MILLISECONDS] AS a, "
        "t [RANGE 8 MILLISECONDS SLIDE 8 MILLISECONDS] AS b WHERE a.k = b.k AND fragile(b.i) > 3)",
    ),
    (
        EvaluationWay.LOOKUP,
        "RSTREAM(SELECT a.k AS k, a.i AS i, fragile(b.i) AS j "
        "FROM s [UNBOUNDED] AS a, t [NOW] AS b WHERE a.k = b.k)",
    ),
    (
        EvaluationWay.STEPWISE,
        "ISTREAM(SELECT a.k AS k, a.i + fragile(b.i) AS n "
        "FROM s [RANGE 9 MILLISECONDS] AS a, t [ROWS 4] AS b WHERE a.k < b.k AND fragile(a.i) > 2)",
    ),
    # These fail when a window ends: on what it holds, without tuples at that time.
    (
        EvaluationWay.PANES,
        "RSTREAM(SELECT k, fragile(sum(i)) AS n "
        "FROM s [RANGE 20 MILLISECONDS SLIDE 5 MILLISECONDS] GROUP BY k)",
    ),
    (
        EvaluationWay.SESSIONS,
        "RSTREAM(SELECT k, fragile(sum(i)) AS n "
        "FROM s [SESSION 6 MILLISECONDS PARTITION BY k] GROUP BY k)",
    ),
    (
        EvaluationWay.JOIN,
        "RSTREAM(SELECT a.k AS k, fragile(a.i + b.i + 1) AS n "
        "FROM s [RANGE 8 MILLISECONDS SLIDE 8 MILLISECONDS] AS a, "
        "t [RANGE 8 MILLISECONDS SLIDE 8 MILLISECONDS] AS b WHERE a.k = b.k)",
    ),
    (
        EvaluationWay.STEPWISE,
        "RSTREAM(SELECT a.k AS k, fragile(sum(a.i)) AS n "
        "FROM s [RANGE 24 MILLISECONDS SLIDE 6 MILLISECONDS] AS a, "
        "t [RANGE 24 MILLISECONDS SLIDE 6 MILLISECONDS] AS b WHERE a.k = b.k GROUP BY a.k)",
    ),
]
"""At least one statement for each way to evaluate."""

one_row = st.tuples(
    st.integers(min_value=1, max_value=60),
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from([1, 4, 5, 7, FATAL]),
    st.sampled_from([0.5, 99.5]),
    st.booleans(),
)
# With few, several windows end between two tuples.
rows = st.one_of(st.lists(one_row, max_size=6), st.lists(one_row, max_size=40)).map(
    lambda found: sorted(found, key=lambda row: row[0])
)

END_MS = 100
Given = dict[str, list[Row]]


def evaluated(
    compiled: Program, inputs: Given, cuts: list[int], restored: Collection[int] = ()
) -> tuple[list[Row], list[tuple[int, str, int]], FragmentEngine]:
    """Rows, and what was rejected: timestamp, input, number of tuples.

    Parameters
    ----------
    cuts
        Up to where the input comes at once.
    restored
        Cuts after which another engine goes on with the state.
    """
    engine, emitted = FragmentEngine(compiled), list[Row]()
    rejected = list[tuple[int, str, int]]()
    taken = dict.fromkeys(inputs, 0)
    for after_ms, until_ms in pairwise([0, *cuts, END_MS]):
        for stream, tuples in inputs.items():
            some = [row for row in tuples if after_ms < row[0] <= until_ms]
            watermarks_ms = sorted({row[0] for row in some} | {until_ms})
            engine.offer(stream, chunk(sensor, some, watermarks_ms, taken[stream]))
            taken[stream] += len(some)
        while (found := engine.advance(100)) is not None:
            emitted += [tuple(row.values()) for row in found.rows.to_pylist()]
            for one in found.rejected:
                rejected += [
                    (one.timestamp_ms, stream, left_out.num_rows)
                    for stream, left_out in one.tuples.items()
                ]
                rejected += [(one.timestamp_ms, "", 0)] if one.state else []
        if until_ms in restored:
            before, engine = engine, FragmentEngine(compiled)
            engine.restore(before.snapshot())
    return emitted, rejected, engine


def until_failure(compiled: Program, inputs: Given) -> list[Row]:
    """Rows before the first millisecond that fails. A batch may fail on what none alone needs."""
    engine, emitted = FragmentEngine(compiled), list[Row]()
    for stream, tuples in inputs.items():
        engine.offer(stream, chunk(sensor, tuples, [*range(1, END_MS + 1)]))
    with suppress(EvaluationError):
        while (found := engine.advance(1)) is not None:
            emitted += [tuple(row.values()) for row in found.rows.to_pylist()]
    return emitted


cut_lists = st.lists(st.integers(min_value=1, max_value=END_MS - 1), max_size=12).map(
    lambda cuts: sorted(set(cuts))
)


@settings(max_examples=30)
@pytest.mark.parametrize(("way", "statement"), shapes)
@given(s=rows, t=rows, cuts=cut_lists, others=cut_lists, data=st.data())
def test_replicas_leave_out_the_same_tuples_however_their_input_is_cut(
    way: EvaluationWay,
    statement: str,
    s: list[Row],
    t: list[Row],
    cuts: list[int],
    others: list[int],
    data: st.DataObject,
) -> None:
    with fragile_function():
        compiled = replace(program(statement), skips=True)
        assert way_of(compiled) is way
        inputs = {stream: {"s": s, "t": t}[stream] for stream in compiled.inputs}
        emitted, rejected, engine = evaluated(compiled, inputs, cuts)
        restored = data.draw(st.sets(st.sampled_from([END_MS, *others])))
        with pytest.MonkeyPatch.context() as patch:
            # How often a state is saved changes nothing.
            patch.setattr(skipping, "KEPT_PASSES", data.draw(st.sampled_from([1, 3, 512])))
            again, also, other = evaluated(compiled, inputs, others, restored)
        assert (again, also) == (emitted, rejected)
        told, _, _ = evaluated(compiled.rejections, inputs, others, restored)
        assert Counter(row[:2] for row in told) == {
            (at_ms, stream): number for at_ms, stream, number in rejected if stream
        }
        assert other.rejected_count == engine.rejected_count
        count = engine.rejected_count
        assert count is not None
        assert count.tuples == sum(number for _, _, number in rejected)
        # All else is as if the rejected tuples had never come.
        left_out = {(at_ms, stream) for at_ms, stream, _ in rejected}
        rest = {
            stream: [row for row in tuples if (row[0], stream) not in left_out]
            for stream, tuples in inputs.items()
        }
        without_skipping = until_failure(replace(compiled, skips=False), rest)
        if count.states:
            # Up to where the state was rejected.
            assert emitted[: len(without_skipping)] == without_skipping
        else:
            assert without_skipping == emitted


@pytest.mark.parametrize(
    ("window", "result"),
    [
        ("SESSION 6 MILLISECONDS PARTITION BY k", (36, "b", 6)),
        # The one after it has FATAL alone.
        ("RANGE 10 MILLISECONDS SLIDE 5 MILLISECONDS", (35, "b", 6)),
    ],
)
@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_a_window_that_ended_before_one_that_fails_has_its_result_in_every_replica(
    window: str, result: Row, at_once: int
) -> None:
    with fragile_function():
        query = f"RSTREAM(SELECT k, fragile(sum(i)) AS n FROM s [{window}] GROUP BY k)"
        engine = FragmentEngine(replace(program(query), skips=True))
        tuples = [(29, "c", 8), (30, "b", 6), (32, "c", FATAL)]
        given = [(*one, 0.5, False) for one in tuples[window.startswith("SESSION") :]]
        # Time advances without tuples, too, such as behind a filter; replicas take it in portions.
        watermarks_ms = [29, 30, 32, 35, 36, 37, 38, 40, 60]
        engine.offer("s", chunk(sensor, given, watermarks_ms))
        emitted: list[Row] = []
        while (found := engine.advance(at_once)) is not None:
            emitted += [tuple(row.values()) for row in found.rows.to_pylist()]
        assert result in emitted
