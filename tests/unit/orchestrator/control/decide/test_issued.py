"""First epochs and generations are the store's numbers, raised by a floor."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.records import IssuedRecord
from orchestrator.store.protocol import ISSUED, QUERIES, STREAMS
from tests.obedient_cluster import ObedientCluster, aircraft

FLOOR = 1_000_000


def test_epochs_and_generations_begin_above_the_floor() -> None:
    """Archives have seen those of the store whose place this one takes."""
    cluster = ObedientCluster()
    cluster.store.create(ISSUED, IssuedRecord(floor=FLOOR))
    cluster.apply(aircraft())
    cluster.settle()
    view = cluster.view()
    (query,) = view.queries.values()
    for found in view.fragments.values():
        assert found.record.epoch >= found.record.generation == FLOOR + query.created
    for name, stream in view.entering.items():
        assert stream.running.generation == FLOOR + view.streams[name].created
        assert stream.running.start_at_us is not None
    sinks = [each for found in view.assignments.values() for each in found.record.sinks]
    assert [each.life for each in sinks] == [FLOOR + query.created]
    # A stream that is applied again begins in a later generation than the former one.
    before = view.entering["north"].running.generation
    cluster.store.delete(QUERIES.key(query.record.name), query.version)
    cluster.settle()
    found = cluster.view().streams["north"]
    cluster.store.delete(STREAMS.key("north"), found.version)
    cluster.settle()
    cluster.apply(aircraft())
    cluster.settle()
    assert cluster.view().entering["north"].running.generation > before


def test_nothing_is_decided_by_a_floor_that_cannot_be_read() -> None:
    cluster = ObedientCluster()
    cluster.server.connect().create(ISSUED, IssuedRecord(floor=FLOOR))
    path = next(path for path in cluster.server.entries if path.endswith(ISSUED.path))
    cluster.server.entries[path].data = b"{}x"
    cluster.apply(aircraft())
    cluster.settle()
    assert not cluster.view().fragments
    assert any("issued" in each for each in cluster.coordination.problems)


def test_a_floor_is_no_negative_number() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"floor": -1}', type=IssuedRecord)
