"""Which checkpoints stay listed while a cluster goes on writing others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from orchestrator.control.decide import checkpoints
from orchestrator.control.decide.checkpoints import keep_checkpoints, needed_ms, stored_of
from orchestrator.control.decide.decision import DecisionSettings, PendingDecision
from orchestrator.control.decide.resuming import Resumption
from orchestrator.control.observe.view import ClusterView
from orchestrator.records import (
    FragmentRecord,
    Restarts,
    SourceSpec,
    StoredCheckpoint,
    StoredPosition,
)
from orchestrator.store.protocol import Versioned
from tests.saved_cluster import READ_AGAIN, SavedCluster

EVERY_MS = 2000
MOST = 8
"""Fewer than intervals that pass, as `MOST_KEPT` is after hours."""

INTERVALS = 12
LAST, FIRST = "proximity.alerts", "proximity.north_tracks"


def at(interval: int) -> StoredPosition:
    return StoredPosition(next_seq=10 * interval, watermark_ms=EVERY_MS * interval)


def begun(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: SourceSpec | None = READ_AGAIN,
    north: SourceSpec | None = READ_AGAIN,
) -> ClusterView:
    monkeypatch.setattr(checkpoints, "MOST_KEPT", MOST)
    view = SavedCluster(folder, source=source).view
    records = {
        name: replace(found, record=structs.replace(found.record, source=north))
        for name, found in view.streams.items()
        if name == "north"
    }
    return replace(view, streams={**view.streams, **records})


def marked(view: ClusterView, key: str, **fields: object) -> ClusterView:
    found = view.fragments[key]
    changed = replace(found, record=structs.replace(found.record, **fields))
    return replace(view, fragments={**view.fragments, key: changed})


def checkpoint(
    view: ClusterView, record: FragmentRecord, interval: int, at_us: int
) -> StoredCheckpoint:
    """It has output of half a second."""
    before = view.checkpoints[record.key].record.stored[0]
    return structs.replace(
        before,
        name=f"{record.generation}-{EVERY_MS * interval}-{at_us}-n1.checkpoint",
        at_us=at_us,
        inputs={name: (of, at(interval)) for name, (of, _) in before.inputs.items()},
        log_base=StoredPosition(next_seq=10 * interval - 5, watermark_ms=EVERY_MS * interval - 500),
        output=at(interval),
    )


def written(
    view: ClusterView, interval: int, at_us: int = 0
) -> tuple[ClusterView, PendingDecision]:
    """Each fragment that runs has written a checkpoint, and the leader has decided."""
    nodes = dict(view.nodes)
    for found in view.fragments.values():
        record = found.record
        if record.stopped is not None:
            continue
        node = nodes[record.primary.node]
        status = structs.replace(
            node.record.replicas[record.fragment], stored=checkpoint(view, record, interval, at_us)
        )
        replicas = {**node.record.replicas, record.fragment: status}
        nodes[record.primary.node] = replace(
            node, record=structs.replace(node.record, replicas=replicas)
        )
    view = replace(view, nodes=nodes)
    pending = PendingDecision(view, 0, DecisionSettings())
    keep_checkpoints(pending)
    lists = {
        key: Versioned(
            record=structs.replace(found.record, stored=stored_of(pending, key)), version=0
        )
        for key, found in view.checkpoints.items()
    }
    return replace(view, checkpoints=lists), pending


def passed(view: ClusterView, intervals: Collection[int]) -> tuple[ClusterView, PendingDecision]:
    first, *rest = intervals
    view, pending = written(view, first)
    for interval in rest:
        view, pending = written(view, interval)
    return view, pending


def lengths(view: ClusterView) -> dict[str, int]:
    return {key: len(found.record.stored) for key, found in view.checkpoints.items()}


def test_two_sets_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view, _ = passed(begun(tmp_path, monkeypatch), range(2, INTERVALS))
    assert set(lengths(view).values()) <= {2, 3}


def test_two_sets_stay_where_output_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = begun(tmp_path, monkeypatch)
    for at_us in range(INTERVALS):
        view, _ = written(view, 2, at_us)
    assert set(lengths(view).values()) == {2}
    kept = {each.at_us for found in view.checkpoints.values() for each in found.record.stored}
    assert kept == {INTERVALS - 2, INTERVALS - 1}


def test_a_stream_that_is_read_once_has_others_keep_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, _ = passed(begun(tmp_path, monkeypatch, north=None), range(2, INTERVALS))
    kept = lengths(view)
    assert kept[FIRST] == 2
    assert kept["proximity.south_tracks"] <= 3
    assert kept[LAST] <= 3


@pytest.mark.parametrize("intervals_before", [1, 5])
def test_a_paused_reader_holds_one_old_set_of_what_runs_on_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, intervals_before: int
) -> None:
    view = begun(tmp_path, monkeypatch)
    first = 1 + intervals_before
    if intervals_before > 1:
        view, _ = passed(view, range(2, first))
    view = marked(view, LAST, paused=True)
    view, pending = passed(view, range(first, first + 2 * MOST))
    assert max(lengths(view).values()) <= 6
    # The newest serve if everything else dies, and the old ones if the query is resumed.
    stored = {key: found.record.stored for key, found in view.checkpoints.items()}
    running = set(view.fragments) - {LAST}
    for each in Resumption(pending, stored).of_everything(running).values():
        assert each.output == at(first + 2 * MOST - 1)
    assert Resumption(pending, stored).of({LAST}).keys() >= {LAST, FIRST}


def test_a_stopped_fragment_holds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = Restarts(count=5, last_us=0, failed=5, stopped="it cannot evaluate its input")
    view = marked(begun(tmp_path, monkeypatch), FIRST, restarts=stopped)
    view, pending = passed(view, range(2, INTERVALS))
    kept = lengths(view)
    assert kept["proximity.south_tracks"] <= 3
    assert needed_ms(pending).get("north") is None
    assert needed_ms(pending)["south"] >= EVERY_MS * (INTERVALS - 3)
