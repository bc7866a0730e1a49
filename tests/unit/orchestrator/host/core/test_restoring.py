"""A primary that goes on from a checkpoint, at the host's core."""

from __future__ import annotations

from msgspec import structs

from ha.messages import Snapshot, SnapshotRequest, Subscribe
from ha.subscription import RETRY_US
from orchestrator.host.core.events import (
    CheckpointRead,
    CheckpointWritten,
    ReadCheckpoint,
    WriteCheckpoint,
)
from orchestrator.records import StateSpec
from orchestrator.records.checkpoints import CHECKPOINT_EVERY_MS
from tests.driven_host import (
    MS,
    SETTINGS,
    Driven,
    assigned,
    assignment_of,
    data,
    primary,
    sent_numbers,
    subscribed,
)
from tests.streams_of_numbers import chunk

NAME = "1-20-two.checkpoint"


def checkpoint() -> Snapshot:
    """The state of a primary that has evaluated four tuples, up to 20 ms."""
    former = primary()
    former.hear("site", data(chunk(0, [(10, 2), (20, 2)])))
    former.work()
    former.commands.clear()
    former.hear("two", SnapshotRequest(fragment="f"))
    (found,) = former.sent_to("two", Snapshot)
    return found


def restoring() -> Driven:
    host = Driven("one")
    made = assigned("primary", epoch=2, peer_replica="two")
    host.assign(assignment_of(structs.replace(made, restored=2, restores=NAME)))
    return host


def test_a_primary_that_reads_its_checkpoint_has_output_kept_and_is_sent_none() -> None:
    host = restoring()
    (read,) = [each for each in host.commands if isinstance(each, ReadCheckpoint)]
    assert read.name == NAME
    (asked,) = host.sent_to("site", Subscribe)
    assert (asked.position, asked.demands, asked.awaits) == (None, True, True)
    host.wait(RETRY_US / MS)
    (again,) = host.sent_to("site", Subscribe)
    assert (again.first, again.awaits) == (asked.number, True)


def test_a_primary_that_has_read_its_checkpoint_asks_for_what_follows_it() -> None:
    host = restoring()
    host.hear("site", subscribed(next_seq=9, watermark_ms=50))
    host.commands.clear()
    host.handle(CheckpointRead(fragment="f", name=NAME, snapshot=checkpoint()))
    host.wait(50)
    (asked,) = host.sent_to("site", Subscribe)
    assert asked.position is not None
    assert (asked.position.next_seq, asked.awaits) == (4, False)
    assert asked.first == asked.number
    host.hear("exit", Subscribe(stream="f", position=None, generation=None))
    host.hear("site", structs.replace(subscribed(4, 20), request=asked.number))
    host.hear("site", data(chunk(4, [(30, 1)])))
    host.commands.clear()
    host.work()
    assert sent_numbers(host) == [4]


def test_a_checkpoint_that_is_written_while_its_fragment_goes_back_is_not_reported() -> None:
    """Consumers have gone back behind it: they would lack what lies between."""
    host = Driven("one", structs.replace(SETTINGS, state=StateSpec(folder="state")))
    made = assigned("primary", peer_replica="two")
    host.assign(assignment_of(made))
    host.hear("site", subscribed())
    host.hear("site", data(chunk(0, [(10, 2), (20, 2), (30, 2)])))
    host.work()
    host.wait(200)
    (write,) = host.take(WriteCheckpoint)
    host.assign(assignment_of(structs.replace(made, epoch=2, restored=2, restores=NAME)))
    host.handle(CheckpointRead(fragment="f", name=NAME, snapshot=checkpoint()))
    host.handle(CheckpointWritten(fragment="f", stored=write.stored))
    assert host.core.replica_statuses(host.now_us)["f"].stored is None


def test_no_name_of_a_checkpoint_comes_again_while_output_stands_still() -> None:
    """The later one has less of the log. Readers that the leader chose by the list would lack
    what the file has no more."""
    host = Driven("one", structs.replace(SETTINGS, state=StateSpec(folder="state")))
    host.assign(assignment_of(assigned("primary", peer_replica=None)))
    host.hear("site", subscribed())
    host.hear("site", data(chunk(0, [(10, 2), (20, 2), (30, 2)])))
    host.work()
    written: list[WriteCheckpoint] = []
    for _ in range(3):
        host.wait(CHECKPOINT_EVERY_MS)
        (write,) = host.take(WriteCheckpoint)
        written.append(write)
        host.handle(CheckpointWritten(fragment="f", stored=write.stored))
        host.commands.clear()
    assert len({each.stored.output.watermark_ms for each in written}) == 1
    assert len({each.stored.name for each in written}) == 3
