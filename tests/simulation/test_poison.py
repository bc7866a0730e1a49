"""A tuple that no replica can evaluate: one fragment rests and tries again, all else goes on."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from ha.replica import Replica
from orchestrator.control.observe.view import read_view
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.simulation.world.scenario import Scenario
from orchestrator.store.protocol import PROBLEMS
from streams.evaluate.engine import Evaluated
from tests.pairs import BEGIN_MS, SETTLE_S, Input, answer

COUNTS = "pairing.pair_counts"
POISON_MS = BEGIN_MS + 4_000
SECONDS = 6


@pytest.mark.long
@pytest.mark.slow
def test_poison_tuple_is_tried_again_ever_more_rarely_and_spares_everything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate, tried = Replica.evaluate, list[int]()

    def poisoned(self: Replica, limit: int, tuples: int | None = None) -> Evaluated | None:
        if self.stream == "pair_counts" and self.engine.input_watermark_ms >= POISON_MS:
            tried.append(scenario.world.now_us)
            raise ValueError("this tuple is poison")
        return evaluate(self, limit, tuples)

    recording = Input.random(seed=7, seconds=SECONDS)
    scenario = Scenario(recording.manifests(tmp_path, repeat=True), seed=1, settle_s=SETTLE_S)
    monkeypatch.setattr(Replica, "evaluate", poisoned)
    scenario.begin()
    scenario.run_for(64)
    # The problem is in the status all the time, with its cause.
    for _ in range(4):
        scenario.run_for(1)
        view = read_view(scenario.store)
        said = [each for node in view.hosts.values() for each in node.problems]
        found = scenario.store.get(PROBLEMS)
        said += found.record.problems if found is not None else ()
        assert any("this tuple is poison" in each for each in said)
    events = [each.event for each in scenario.store.history() if each.event.subject == COUNTS]
    failed = [each for each in events if each.kind == "replica failed"]
    assert failed
    assert all("this tuple is poison" in each.detail for each in failed)
    begun = [each.at_us for each in events if each.kind == "state lost"]
    assert 2 <= len(begun) <= 5
    pauses = [after - before for before, after in pairwise(begun)]
    assert all(after > 1.5 * before for before, after in pairwise(pauses))
    assert len(tried) <= 3 * (len(begun) + 1)
    kept = scenario.deliveries["pairs"]
    seen = Delivered.from_deliveries(kept, kept[0].chunk.rows.schema)
    assert sequence_faults(seen) == SequenceFaults(lost=0, repeated=0)
    end_ms = int(seen.completed_column("watermark_ms")[-1])
    assert end_ms > BEGIN_MS + 66_000
    expected = recording.repeated(12).expected()["pairs"]
    assert answer(seen) == [row for row in expected if row[0] <= end_ms]
    # Mended, it runs with both replicas again.
    monkeypatch.setattr(Replica, "evaluate", evaluate)
    scenario.run_for(60)
    scenario.heal()
