"""A loop that goes on for ever, whose owner has it cut."""

from __future__ import annotations

from pathlib import Path

from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.manifest import load
from orchestrator.simulation.world.scenario import Scenario
from tests.pairs import SETTLE_S, Input, answer

STEPS = 3
COUNTING = f"""---
kind: Query
name: counting
deadline: 5 s
recovery: 5 s
outputs: {{c: exit}}
loops: {{steps: {STEPS}, beyond: cut}}
statements: |
  REGISTER QUERY c ISTREAM(SELECT value AS x FROM west [NOW]
    UNION ALL SELECT x + 1 AS x FROM c [NOW])<NOW>;
"""


def test_what_a_loop_drops_is_told_and_both_replicas_live(tmp_path: Path) -> None:
    recording = Input.random(seed=3, seconds=6)
    file = recording.write(tmp_path)
    file.write_text(file.read_text() + COUNTING)
    scenario = Scenario(load([file]), seed=5, settle_s=SETTLE_S)
    scenario.begin()
    scenario.run_for(2)
    scenario.drill("c")
    delivered = scenario.finish().delivered("c")
    assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
    assert answer(delivered) == sorted(
        (at_ms, value + step) for at_ms, _, value in recording.west for step in range(STEPS)
    )
    told = [each.event.detail for each in scenario.store.history() if each.event.kind == "loop cut"]
    assert told
    assert all(" of c dropped up to 2023-" in each for each in told)
