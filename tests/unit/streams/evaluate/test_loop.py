"""Loops by example: the one of *Recursive streams*, delays, limits and what is left in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from foundation.loop_limits import DEFAULT_TUPLES, Beyond, LoopLimits
from streams.evaluate.engine import TURN_INSTANTS, EvaluationError, FragmentEngine
from streams.evaluate.loops import compiled as compiled_loop
from streams.evaluate.loops.evaluation import LoopEvaluation
from streams.evaluate.protocol import Pass
from streams.kernels import kernels, reference
from streams.language import parse
from streams.language.loops import with_loops
from streams.language.views import with_relations
from streams.plan.compiler import compile_statement
from streams.plan.program import Program
from streams.vectors.chunk import Chunk, stream_schema

NUMBERS = {"s": {"x": "int"}}

Input = Mapping[str, Sequence[tuple[Any, ...]]]


@pytest.fixture(autouse=True, params=["stepwise", "compiled"])
def core(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Evaluate loops on both cores, which take as long for a turn here."""
    before = kernels.current()
    kernels.use(reference)
    if request.param == "compiled" and not kernels.load(loops=True):
        pytest.skip("numba cannot be imported")
    monkeypatch.setattr(compiled_loop, "PACE", 1)
    yield request.param
    kernels.use(before)


def test_the_core_is_the_one_that_was_asked_for(core: str) -> None:
    program = compiled(COUNT_TO_THREE + "<NOW>", "c")
    loop = LoopEvaluation(program, stream_schema(program.columns))
    assert loop.compiled == (core == "compiled")


def compiled(
    text: str,
    *outputs: str,
    steps: int = 1000,
    tuples: int = DEFAULT_TUPLES,
    beyond: Beyond = Beyond.ERROR,
    catalogue: Mapping[str, Mapping[str, str]] = NUMBERS,
) -> Program:
    statements = with_loops(with_relations(parse(text)), outputs, LoopLimits(steps, tuples, beyond))
    (loop,) = (each for each in statements if each.loop is not None)
    return compile_statement(loop, catalogue)


def rows_of(program: Program, stream: str, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = program.input_columns[stream]
    named = [dict(zip(["_ts", *columns], row, strict=True)) for row in rows]
    return pa.RecordBatch.from_pylist(named, schema=stream_schema(columns))


def offered(program: Program, inputs: Input, until_ms: int) -> FragmentEngine:
    """An engine with all tuples: timestamp, then columns."""
    engine = FragmentEngine(program)
    for stream in program.inputs:
        rows = inputs.get(stream, ())
        batch = rows_of(program, stream, rows)
        times_ms = np.unique([*(row[0] for row in rows), until_ms])
        chunk = Chunk(first_seq=0, rows=batch, watermarks_ms=times_ms, ingestion_times_us=times_ms)
        engine.offer(stream, chunk)
    return engine


def given(engine: FragmentEngine) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    while (made := engine.advance(1 << 20)) is not None:
        found += [tuple(row.values()) for row in made.rows.to_pylist()]
    return found


def run(program: Program, until_ms: int, **inputs: Sequence[tuple[Any, ...]]) -> Any:
    return given(offered(program, inputs, until_ms))


COUNT = "REGISTER QUERY c ISTREAM(SELECT x FROM s [NOW] UNION ALL SELECT x + 1 AS x FROM c [NOW] "
COUNT_TO_THREE = COUNT + "WHERE x < 3)"


def test_now_delays_by_an_instant() -> None:
    assert run(compiled(COUNT_TO_THREE + "<NOW>", "c"), 9, s=[(5, 1)]) == [(5, 1), (5, 2), (5, 3)]


def test_a_duration_delays_by_that() -> None:
    program = compiled(COUNT_TO_THREE + "<2 MILLISECONDS>", "c")
    assert run(program, 11, s=[(5, 1)]) == [(7, 1), (9, 2), (11, 3)]
    assert run(program, 10, s=[(5, 1)]) == [(7, 1), (9, 2)]


def test_a_delay_on_no_cycle_delays() -> None:
    text = "REGISTER QUERY c ISTREAM(SELECT x FROM s [NOW])<3 SECONDS>"
    assert run(compiled(text, "c"), 9000, s=[(1, 7), (2, 8)]) == [(3001, 7), (3002, 8)]


def test_now_lasts_an_instant_and_a_millisecond_longer() -> None:
    """A tuple of (1, 0) is there at (1, 1) in RANGE 1 MILLISECOND, in NOW it is not."""
    text = (
        "REGISTER QUERY late ISTREAM(SELECT x FROM s [NOW])<NOW>;"
        "REGISTER QUERY both ISTREAM(SELECT s.x FROM s [{}], late [NOW])<NOW>"
    )
    loop = text.format("RANGE 1 MILLISECOND")
    joined = f"REGISTER LOOP l OF both STEPS 9 ERROR ({loop})"
    for window, rows in (("RANGE 1 MILLISECOND", [(1, 7)]), ("NOW", [])):
        (statement,) = parse(joined.replace("RANGE 1 MILLISECOND", window))
        assert run(compile_statement(statement, NUMBERS), 5, s=[(1, 7)]) == rows


def test_timestamps_are_milliseconds() -> None:
    text = "REGISTER QUERY c ISTREAM(SELECT _ts AS x FROM s [NOW] UNION ALL SELECT c._ts AS x "
    text += "FROM c [NOW] WHERE x = c._ts AND FALSE)<NOW>"
    assert run(compiled(text, "c"), 9, s=[(5, 1)]) == [(5, 5)]


def test_joins_find_rows_among_many() -> None:
    """Rows come and leave, the table grows and its rows are moved together, and some keys recur."""
    text = (
        "REGISTER QUERY c ISTREAM(SELECT a.x FROM s [NOW] AS a, d [ROWS 40] AS b WHERE a.x = b.x);"
        "REGISTER QUERY d ISTREAM("
        "SELECT x FROM s [NOW] UNION ALL SELECT x FROM c [NOW] WHERE x < 0)<NOW>"
    )
    numbers: list[int] = np.random.default_rng(5).integers(0, 60, 500).tolist()
    expected = [
        (at, x)
        for at, x in enumerate(numbers)
        for _ in range(numbers[max(at - 40, 0) : at].count(x))
    ]
    assert run(compiled(text, "c"), 500, s=list(enumerate(numbers))) == expected


class TestLimit:
    FOREVER = COUNT[:-1].removesuffix(" ") + ")<NOW>"

    def test_an_error_names_the_statement_and_the_millisecond(self) -> None:
        with pytest.raises(EvaluationError, match=r"c has tuples .* 20 instants of 5 ms.*`steps`"):
            run(compiled(self.FOREVER, "c", steps=20), 9, s=[(5, 1)])

    def test_what_comes_later_is_cut_and_counted(self) -> None:
        program = compiled(self.FOREVER, "c", steps=3, beyond=Beyond.CUT)
        engine = offered(program, {"s": [(5, 1), (6, 10)]}, 9)
        made = engine.advance(1 << 20)
        assert made is not None
        rows = [tuple(row.values()) for row in made.rows.to_pylist()]
        assert rows == [(5, 1), (5, 2), (5, 3), (6, 10), (6, 11), (6, 12)]
        assert made.cut == {"c": 2}

    DOUBLES = FOREVER.replace(
        "x + 1 AS x", "2 * x AS x FROM c [NOW] UNION ALL SELECT 2 * x + 1 AS x"
    )

    def test_tuples_of_a_millisecond_are_limited_too(self) -> None:
        """Of 1, 2, 4, 8 and 16 tuples, 16 would be too many."""
        with pytest.raises(
            EvaluationError, match=r"those of c .* than 30 tuples at 6 ms.*`tuples`"
        ):
            run(compiled(self.DOUBLES, "c", tuples=30), 9, s=[(6, 1)])
        program = compiled(self.DOUBLES, "c", tuples=30, beyond=Beyond.CUT)
        engine = offered(program, {"s": [(5, 1), (6, 10)]}, 9)
        made = engine.advance(1 << 20)
        assert made is not None
        assert made.rows.num_rows == 2 * (1 + 2 + 4 + 8)
        assert made.cut == {"c": 32}

    def test_every_millisecond_may_have_as_many_tuples(self) -> None:
        program = compiled(COUNT_TO_THREE + "<NOW>", "c", tuples=3)
        rows = run(program, 99, s=[(place, 1) for place in range(50)])
        assert len(rows) == 150

    def test_joins_are_limited_too(self) -> None:
        """Of 2, 4, 16 and 256 rows, 256 would be too many, and half of a relation is none."""
        text = "REGISTER QUERY c ISTREAM(SELECT x FROM s [NOW] UNION ALL "
        text += "SELECT a.x + b.x AS x FROM c [NOW] AS a, c [NOW] AS b)<NOW>"
        for beyond in Beyond:
            program = compiled(text, "c", tuples=200, beyond=beyond)
            with pytest.raises(EvaluationError, match="a join of c has more than 200 rows"):
                run(program, 9, s=[(5, 1), (5, 2)])

    def test_timestamps_too_far_away_are_told(self) -> None:
        with pytest.raises(EvaluationError, match="no timestamps beyond"):
            run(compiled(COUNT_TO_THREE + "<NOW>", "c"), 2**50, s=[(2**46, 1)])


class TestTurns:
    MANY = COUNT + f"WHERE x < {5 * TURN_INSTANTS})<NOW>"

    def test_a_millisecond_is_left_and_taken_up_again(self) -> None:
        program = compiled(self.MANY, "c")
        engine = offered(program, {"s": [(5, 1)]}, 9)
        turns = 0
        while not len((made := engine.advance(64, whole=False)).watermarks_ms):  # type: ignore[union-attr]
            turns += 1
            assert engine.ready
            assert not engine.between_timestamps
        assert turns >= 5
        assert made is not None
        assert engine.between_timestamps
        assert made.rows.num_rows == 5 * TURN_INSTANTS
        assert made.tuples_in == 1

    def test_a_state_is_taken_up_in_between_two_milliseconds(self) -> None:
        program = compiled(self.MANY.replace("<NOW>", "<1 MILLISECOND>"), "c")
        whole = given(offered(program, {"s": [(5, 1)]}, 500))
        engine = offered(program, {"s": [(5, 1)]}, 40)
        first = given(engine)
        other = FragmentEngine(program)
        other.restore(engine.snapshot())
        times_ms = np.array([500])
        none = pa.RecordBatch.from_pylist([], schema=stream_schema(NUMBERS["s"]))
        other.offer(
            "s",
            Chunk(first_seq=1, rows=none, watermarks_ms=times_ms, ingestion_times_us=times_ms),
        )
        assert first + given(other) == whole


TRADING = """
REGISTER QUERY buy_event ISTREAM(
  SELECT stock.id, 1000 AS num, market.price FROM stock, resource, market [NOW]
  WHERE stock.id = market.stock_id AND stock.num = 0
    AND market.price < 500 AND resource.val > market.price * 1000);
REGISTER QUERY resource SELECT * FROM resource_stream [ROWS 1];
REGISTER QUERY resource_stream ISTREAM(
  SELECT * FROM initial_resource [NOW] UNION ALL
  SELECT resource.val - buy_event.price * buy_event.num AS val FROM resource, buy_event [NOW])<NOW>;
REGISTER QUERY stock SELECT * FROM stock_stream [PARTITION BY stock_stream.id ROWS 1];
"""
MARKET = {
    "market": {"stock_id": "string", "price": "float"},
    "initial_resource": {"val": "float"},
    "stock_stream": {"id": "string", "num": "int", "price": "float"},
}
BEGIN: Any = {"initial_resource": [(0, 3e6)], "stock_stream": [(0, "a", 0, 500.0)]}


class TestTrading:
    """*Recursive streams*, §2–3."""

    def test_the_figures_of_the_paper(self) -> None:
        program = compiled(TRADING, "buy_event", "resource_stream", catalogue=MARKET)
        assert given(offered(program, BEGIN | {"market": [(1000, "a", 480.0)]}, 2000)) == [
            (0, 1, None, None, None, 3e6),
            (1000, 0, "a", 1000, 480.0, None),
            (1000, 1, None, None, None, 2_520_000.0),
        ]

    def test_a_purchase_takes_two_instants(self) -> None:
        """It is bought at (1000, 0) and paid at (1000, 1); at (1000, 2) nothing happens."""
        program = compiled(TRADING, "buy_event", catalogue=MARKET)
        loop = LoopEvaluation(program, stream_schema(program.columns))
        ticks = {"market": [(1000, "a", 480.0)]}
        taken = {
            stream: rows_of(program, stream, (BEGIN | ticks)[stream]) for stream in program.inputs
        }
        rows = loop.run(Pass(taken, dict.fromkeys(taken, 0), 2000))
        assert rows.to_pylist() == [{"_ts": 1000, "id": "a", "num": 1000, "price": 480.0}]
        assert loop.instants == 2 + 2

    def test_two_ticks_of_one_timestamp_see_the_same_resource(self) -> None:
        """Trap R1: more is bought than there is, as the paper's own query says."""
        program = compiled(TRADING, "buy_event", "resource_stream", catalogue=MARKET)
        start = BEGIN | {"initial_resource": [(0, 600_000.0)]}
        ticks = [(1000, "a", 480.0), (1000, "a", 490.0)]
        rows = given(offered(program, start | {"market": ticks}, 2000))
        assert [row[4] for row in rows if row[1] == 0] == [480.0, 490.0]
        first = TRADING.replace(
            "market.price * 1000)", "market.price * 1000 TOP 1 BY market.price ASC)"
        )
        program = compiled(first, "buy_event", "resource_stream", catalogue=MARKET)
        rows = given(offered(program, start | {"market": ticks}, 2000))
        assert [row[4] for row in rows if row[1] == 0] == [480.0]

    @pytest.mark.parametrize("ticks", [1000, pytest.param(100_000, marks=pytest.mark.long)])
    def test_never_more_is_bought_than_there_is(self, ticks: int) -> None:
        rng = np.random.default_rng(49)
        prices = rng.integers(1, 600, ticks).astype(float)
        refilled = rng.choice(ticks, ticks // 20, replace=False)
        market = [(2 * place + 1, "a", price) for place, price in enumerate(prices.tolist())]
        # Money that comes replaces what is left: at timestamps at which there is no tick.
        money = [(2 * int(place), float(rng.integers(1, 10**7))) for place in sorted(refilled)]
        program = compiled(TRADING, "buy_event", "resource_stream", catalogue=MARKET)
        inputs = {"initial_resource": money, "stock_stream": [(0, "a", 0, 0.0)], "market": market}
        left, bought = 0.0, 0
        for _, tag, _, number, price, value in run(program, 2 * ticks, **inputs):
            if tag == 0:
                assert number * price < left
                bought += 1
            else:
                left = value
        assert bought


def test_a_process_goes_over_to_the_compiled_core_between_two_passes(core: str) -> None:
    """What it held is held on: the tuples that windows have, and those that are not due."""
    text = "REGISTER QUERY c ISTREAM(SELECT count(*) AS x FROM s [RANGE 1 SECOND] UNION ALL "
    program = compiled(
        text + "SELECT x + 100 AS x FROM c [NOW] WHERE x < 100)<3 MILLISECONDS>", "c"
    )
    inputs = {"s": [(place, place) for place in range(40)]}
    whole = given(offered(program, inputs, 60))
    kernels.use(reference)
    engine = offered(program, inputs, 60)
    rows: list[Any] = []
    passes = 0
    while (made := engine.advance(1)) is not None:
        rows += [tuple(row.values()) for row in made.rows.to_pylist()]
        passes += 1
        if passes == 20 and core == "compiled":
            kernels.load(loops=True)
    assert rows == whole
