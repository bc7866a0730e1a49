"""The budget of a host's queues, and chunks that are larger than any queue."""

from __future__ import annotations

from orchestrator.records import ClusterRecord
from orchestrator.simulation.trials.queues import QueueBudget
from streams.vectors.chunk import Position
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
    budget = QueueBudget()
    assert budget.over(host.core.replica_manager) is None
    host.work()
    manager = host.core.replica_manager
    assert manager.memory().used > manager.budget.total_bytes
    assert budget.over(manager) is None


def test_many_chunks_that_take_more_than_the_budget() -> None:
    host = tight_primary()
    manager = host.core.replica_manager
    log = manager.replicas["f"].replica.log
    log.capacity_bytes *= 4
    for number in range(40):
        log.extend(chunk(number, [(10 * number + 10, 1)]))
    found = QueueBudget().over(manager)
    assert found is not None
    assert found.logs > LITTLE.memory_bytes


def filled_and_then_given_less() -> tuple[Driven, QueueBudget]:
    """A primary whose log is full of what a sink demands, and has had its part cut to a tenth."""
    host = tight_primary()
    log = host.core.replica_manager.replicas["f"].replica.log
    log.subscribe("exit", Position(), patient=True, demands=True)
    budget = QueueBudget()
    log.capacity_bytes = 3 * LITTLE.memory_bytes
    for number in range(40):
        log.extend(chunk(number, [(10 * number + 10, 1)]))
    assert budget.over(host.core.replica_manager) is not None
    log.capacity_bytes = LITTLE.memory_bytes // 10
    return host, budget


def test_what_was_demanded_before_the_part_shrank_is_kept() -> None:
    host, budget = filled_and_then_given_less()
    manager = host.core.replica_manager
    assert manager.memory().used > manager.budget.total_bytes
    assert budget.over(manager) is None
    assert budget.over(manager) is None


def test_nothing_may_be_appended_to_a_log_beyond_its_part() -> None:
    host, budget = filled_and_then_given_less()
    manager = host.core.replica_manager
    assert budget.over(manager) is None
    for number in range(40, 80):
        manager.replicas["f"].replica.log.extend(chunk(number, [(10 * number + 10, 1)]))
    assert budget.over(manager) is not None


def test_what_nobody_demands_is_not_kept_beyond_the_part() -> None:
    host, budget = filled_and_then_given_less()
    manager = host.core.replica_manager
    log = manager.replicas["f"].replica.log
    log.subscribers.clear()
    assert budget.over(manager) is not None
    log.bound(log.capacity_bytes)
    assert budget.over(manager) is None
