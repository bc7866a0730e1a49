"""The budget of a host's queues, and chunks that are larger than any queue."""

from __future__ import annotations

from orchestrator.records import ClusterRecord
from orchestrator.simulation.queues import over_budget
from tests.driven_host import Driven, assigned, assignment_of, data, subscribed
from tests.streams_of_numbers import chunk

LITTLE = ClusterRecord(name="c", delays_ms={}, memory_bytes=32 * 1024)


def tight_primary() -> Driven:
    """A primary whose log may take half of its host's budget."""
    made = Driven("one", LITTLE)
    made.assign(assignment_of(assigned("primary", peer_replica="two")))
    made.hear("site", subscribed())
    return made


def test_one_timestamp_larger_than_the_budget_is_nobodys_fault() -> None:
    host = tight_primary()
    host.hear("site", data(chunk(0, [(10, 3000)])))
    assert over_budget(host.core.replica_manager) is None
    host.work()
    manager = host.core.replica_manager
    assert manager.memory().used > manager.budget.total_bytes
    assert over_budget(manager) is None


def test_many_chunks_that_take_more_than_the_budget() -> None:
    host = tight_primary()
    manager = host.core.replica_manager
    log = manager.replicas["f"].replica.log
    log.capacity_bytes *= 4
    for number in range(40):
        log.extend(chunk(number, [(10 * number + 10, 1)]))
    found = over_budget(manager)
    assert found is not None
    assert found.logs > LITTLE.memory_bytes
