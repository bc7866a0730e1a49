"""From where on the tuples of a state that began later are compared."""

from __future__ import annotations

import pytest

from orchestrator.simulation.trials.content_checks import released_ms
from orchestrator.simulation.trials.oracle import ExpectedStream
from orchestrator.simulation.trials.setting import COLUMNS
from streams.language import parse
from streams.language.loops import with_loops
from streams.plan.compiler import compile_statement
from streams.vectors.chunk import FOREVER_MS


@pytest.mark.parametrize(
    ("times_ms", "released"),
    [((50, 250), 1100), ((150, 800, 1300), 2000), ((150, 900, 1300), 1100)],
)
def test_what_follows_a_session_is_released_when_its_tuples_pause(
    times_ms: tuple[int, ...], released: int
) -> None:
    """Sessions that had begun before are over then, and windows that read them a while later."""
    texts = {
        "f": "RSTREAM(SELECT key, sum(value) AS value "
        "FROM s [SESSION 700 MILLISECONDS PARTITION BY key] GROUP BY key)",
        "g": "ISTREAM(SELECT key, sum(value) AS value FROM f [RANGE 1 SECONDS] GROUP BY key)",
    }
    programs = {
        name: compile_statement(
            parse(f"REGISTER QUERY {name} {text};")[0], {"s": COLUMNS, "f": COLUMNS}
        )
        for name, text in texts.items()
    }
    rows = [(at_ms, 1, 5) for at_ms in times_ms]
    known = {"s": ExpectedStream(rows, 9000), "f": ExpectedStream([], 9000)}
    found = released_ms(programs, known, 100, 1000)
    assert found == {"f": released, "g": released + 1000}


@pytest.mark.parametrize(
    ("delay", "window", "released"),
    [("NOW", "NOW", 1100), ("1 SECOND", "NOW", FOREVER_MS), ("NOW", "ROWS 1", FOREVER_MS)],
)
def test_a_loop_is_released_if_it_forgets_what_it_gave_itself(
    delay: str, window: str, released: int
) -> None:
    text = (
        "REGISTER QUERY f ISTREAM(SELECT key, value FROM s [RANGE 1 SECOND] UNION ALL "
        f"SELECT key, value + 1 AS value FROM f [{window}] WHERE value < 9)<{delay}>"
    )
    (loop,) = with_loops(parse(text), ["f"])
    known = {"s": ExpectedStream([], 9000)}
    programs = {"f": compile_statement(loop, {"s": COLUMNS})}
    assert released_ms(programs, known, 100, 1000) == {"f": released}
