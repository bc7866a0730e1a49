"""Clients of a source without a journal are told once consumers have what they sent."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
import pytest

from orchestrator.edges.drivers import DriverError
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.edges.sources.live import confirmed_input as module
from orchestrator.edges.sources.live.confirmed_input import ConfirmedInput
from orchestrator.edges.sources.live.ingestion import BatchOutcome, Full
from orchestrator.edges.sources.live.live_source import Durability
from orchestrator.edges.sources.source_drivers import SourceDrivers
from orchestrator.edges.sources.tcp import Tcp
from orchestrator.records import Guarantee, SourceAssignment, SourceSpec
from streams.vectors.chunk import NO_WATERMARK, Position, stream_schema
from tests.conftest import WaitUntil

SCHEMA = stream_schema({"number": "int"})
OPTIONS = Tcp(
    durable=Durability.REPLICAS, time_column="at", time_format="ms", slack_ms=5, max_ahead_ms=None
)
WAIT_S = 30.0


def rows(*timestamps: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"_ts": timestamps, "number": timestamps}, schema=SCHEMA)


@pytest.fixture
def clients() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture
def source(clients: ThreadPoolExecutor) -> Iterator[ConfirmedInput]:
    assigned = SourceAssignment(
        stream="s",
        columns={"number": "int"},
        source=SourceSpec(driver="tcp", guarantee=Guarantee.SENT),
        start_at_us=0,
    )
    made = OPTIONS.input(assigned, SourceContext(clock_us=lambda: 10**12))
    assert isinstance(made, ConfirmedInput)
    assert not made.resumes
    made.start()
    yield made
    made.close()


def send(
    source: ConfirmedInput, clients: ThreadPoolExecutor, *stamps: int, number: int | None = None
) -> Future[BatchOutcome]:
    client = "" if number is None else "c"
    return clients.submit(source.push, rows(*stamps), client=client, number=number or 0)


def has_entered(source: ConfirmedInput) -> bool:
    """Whether something has: what is pushed may wait, and enter together with what comes later."""
    return source.next_due_us(0) is not None


def test_a_response_comes_once_the_stream_is_acknowledged_as_far_as_the_batch_goes(
    source: ConfirmedInput, clients: ThreadPoolExecutor, wait_until: WaitUntil
) -> None:
    first = send(source, clients, 10, 20)
    wait_until(lambda: has_entered(source))
    later = send(source, clients, 100)
    source.confirm(19, NO_WATERMARK)
    assert not first.done()
    source.confirm(99, NO_WATERMARK)
    assert first.result(WAIT_S) == BatchOutcome(accepted=2, waiting=1)
    assert not later.done()
    source.confirm(100, NO_WATERMARK)
    assert later.result(WAIT_S) == BatchOutcome(accepted=1, waiting=1)
    # Consumers had it before: nothing is waited for.
    late = send(source, clients, 3)
    assert late.result(WAIT_S) == BatchOutcome(late=1, waiting=1)


def test_of_what_consumers_had_before_the_site_was_started_again_nobody_can_tell(
    source: ConfirmedInput, clients: ThreadPoolExecutor, wait_until: WaitUntil
) -> None:
    """It may have come before, or be new and late: consumers leave it out either way."""
    first = send(source, clients, 10, 20, 30)
    wait_until(lambda: has_entered(source))
    source.confirm(30, 20)
    assert first.result(WAIT_S) == BatchOutcome(accepted=1, undecided=2, waiting=1)
    late = send(source, clients, 15, 31)
    wait_until(lambda: source.status.late > 0)
    source.confirm(31, 20)
    assert late.result(WAIT_S) == BatchOutcome(accepted=1, undecided=1, waiting=2)
    later = send(source, clients, 25, 32)
    wait_until(lambda: source.status.late > 1)
    source.confirm(32, 20)
    assert later.result(WAIT_S) == BatchOutcome(accepted=1, late=1, waiting=3)


def test_of_a_tuple_that_is_late_now_the_client_is_told_once_it_is_known_what_consumers_had(
    source: ConfirmedInput, clients: ThreadPoolExecutor, wait_until: WaitUntil
) -> None:
    """Two clients send again, the one with the later timestamps first."""
    first = send(source, clients, 10, 20, 30)
    wait_until(lambda: has_entered(source))
    again = send(source, clients, 15)
    wait_until(lambda: source.status.late > 0)
    source.confirm(30, 20)
    assert first.result(WAIT_S) == BatchOutcome(accepted=1, undecided=2, waiting=1)
    assert again.result(WAIT_S) == BatchOutcome(undecided=1, waiting=1)


def test_a_batch_that_comes_again_waits_as_the_first_one_does(
    source: ConfirmedInput,
    clients: ThreadPoolExecutor,
    wait_until: WaitUntil,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.05)
    with pytest.raises(Full):
        source.push(rows(10, 20), client="c", number=1)
    with pytest.raises(Full):
        source.push(rows(10, 20), client="c", number=1)
    monkeypatch.setattr(module, "PATIENCE_S", WAIT_S)
    again = send(source, clients, 10, 20, number=1)
    wait_until(lambda: source.status.repeated == 2)
    assert not again.done()
    source.confirm(20, NO_WATERMARK)
    assert again.result(WAIT_S) == BatchOutcome(repeated=True, waiting=1)


def test_a_source_that_ends_tells_clients_to_send_again(
    source: ConfirmedInput, clients: ThreadPoolExecutor, wait_until: WaitUntil
) -> None:
    pushed = send(source, clients, 10)
    wait_until(lambda: has_entered(source))
    assert not pushed.done()
    source.close()
    with pytest.raises(DriverError, match="the source ends"):
        pushed.result(WAIT_S)


def test_nothing_is_missing_while_the_site_was_away(source: ConfirmedInput) -> None:
    assert source.tuples_between(10, 20) == 0


def test_the_host_says_how_far_streams_are_acknowledged() -> None:
    drivers = SourceDrivers()
    assigned = SourceAssignment(
        stream="s",
        columns={"number": "int"},
        source=SourceSpec(driver="tcp", guarantee=Guarantee.SENT, options={"durable": "replicas"}),
        start_at_us=0,
    )
    drivers.feed([assigned], 0)
    asked: list[str] = []

    def acknowledged(stream: str) -> Position | None:
        asked.append(stream)
        return None

    drivers.confirm(acknowledged, lambda _: NO_WATERMARK)
    assert asked == ["s"]
    drivers.close()
