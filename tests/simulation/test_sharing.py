"""A query whose output another one computes: what it gives, also when the computing host dies."""

from __future__ import annotations

from pathlib import Path

import msgspec

from orchestrator.control.decide.admission import admit
from orchestrator.control.observe.view import read_view
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.events import Deliver
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.manifest import QueryManifest
from orchestrator.records import QueryRecord, RunningQueryRecord
from orchestrator.simulation.world.scenario import Scenario
from orchestrator.store.protocol import QUERIES, RUNNING_QUERIES
from tests.pairs import SETTLE_S, STATEMENTS, Input, answer

SECONDS = 20


def test_shared_rows_come_once_although_the_computing_host_dies(tmp_path: Path) -> None:
    """The query comes later, and its windows hold what came before it."""
    recording = Input.random(seed=8, seconds=SECONDS)
    given = recording.manifests(tmp_path)
    (pairing,) = given.queries
    offered = msgspec.structs.replace(
        pairing, record=msgspec.structs.replace(pairing.record, share=True)
    )
    given = msgspec.structs.replace(given, queries=(offered,))
    scenario = Scenario(given, seed=2, check_invariants=True, settle_s=SETTLE_S)
    scenario.begin()
    scenario.run_for(5)
    kept: list[Deliver] = []
    scenario.deliveries["copy_counts"] = kept
    record, running = shared(scenario, offered.record)
    scenario.store.create(RUNNING_QUERIES.key("copy"), running)
    scenario.store.create(QUERIES.key("copy"), record)
    scenario.run_for(4)
    fragments = read_view(scenario.store).fragments
    assert fragments.keys() == {
        *("pairing.strong", "pairing.pairs", "pairing.pair_counts", "copy.copy_counts")
    }
    scenario.kill(fragments["pairing.pair_counts"].record.primary.node)
    scenario.run_for(3)
    scenario.kill(read_view(scenario.store).fragments["copy.copy_counts"].record.primary.node)
    scenario.run_for(SECONDS)
    delivered = Delivered.from_deliveries(kept, kept[0].chunk.rows.schema)
    assert sequence_faults(delivered) == SequenceFaults(lost=0, repeated=0)
    rows = answer(delivered)
    assert len(rows) > 100
    assert rows == [row for row in recording.expected()["pair_counts"] if row[0] >= rows[0][0]]


def shared(scenario: Scenario, offered: QueryRecord) -> tuple[QueryRecord, RunningQueryRecord]:
    """A query that computes the same under other names, as it is decided to be made."""
    statements = STATEMENTS.replace("pair_counts", "copy_counts").replace("AS pairs", "AS n")
    for name in ("strong", "pairs"):
        statements = statements.replace(f"QUERY {name} ", f"QUERY copy_{name} ")
        statements = statements.replace(f"FROM {name} [", f"FROM copy_{name} [")
    record = msgspec.structs.replace(
        offered, name="copy", statements=statements, outputs={"copy_counts": "exit"}
    )
    query = QueryManifest(file="copy.yaml:1", statements_line=1, record=record)
    running = admit(read_view(scenario.store), (), [query]).running["copy"]
    (rewrite,) = running.rewrites
    assert (rewrite.fragment, rewrite.made) == ("copy_counts", True)
    return record, running
