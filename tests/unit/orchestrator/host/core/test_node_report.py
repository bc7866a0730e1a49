"""The record that a host publishes."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ha.messages import Data, Subscribe, Subscribed
from orchestrator.edges.events import SinkOpened, SourceEmitted
from orchestrator.host.core.core import HostCore
from orchestrator.host.core.events import AssignmentReceived, CpuMeasured, MessageArrived
from orchestrator.host.shell.loop import host_identity, node_record
from orchestrator.records import (
    Assignment,
    ClusterRecord,
    FailureLabels,
    HostLoad,
    HostSpec,
    NodeKind,
    NodeRecord,
    Processors,
    ReplicaLoad,
    Shed,
    SinkAssignment,
    SnapshotStatus,
    SourceAssignment,
)
from orchestrator.records.speed import Speed
from streams.scheduling.batching import DISPATCH_US
from streams.vectors.chunk import Position
from streams.vectors.widths import row_bytes
from tests.quiet_host import COLUMNS, fragment
from tests.streams_of_numbers import chunk

NOW_US = 1_000_000
PROCESSORS = Processors(machine="rack", shared="4e1c", count=2.0)


def told(core: HostCore, now_us: int = NOW_US) -> NodeRecord:
    spec = HostSpec(
        cluster="c",
        node="one",
        kind=NodeKind.SITE,
        region="here",
        labels=FailureLabels(domain="rack-1"),
        zookeeper="",
        secret="",
    )
    identity = host_identity(spec, "1", "", processors=PROCESSORS)
    return node_record(core, identity, now_us, Counter())


def host(assignment: Assignment) -> HostCore:
    settings = ClusterRecord(name="c", delays_ms={})
    core = HostCore("one", settings, np.random.default_rng(1), NOW_US)
    core.handle(AssignmentReceived(assignment=assignment), NOW_US)
    return core


def test_shed_tuples_are_reported() -> None:
    source = SourceAssignment(
        stream="s",
        columns=COLUMNS,
        source=None,
        start_at_us=None,
        shed=Shed(tuples=2, per_ms=100.0, value="number"),
    )
    core = host(Assignment(incarnation="1", sources=(source,)))
    assert (told(core).sources["s"].next_seq, told(core).sources["s"].shed) == (0, 0)
    part = chunk(0, [(10, 5)])
    entered = SourceEmitted(
        stream="s",
        rows=part.rows,
        watermarks_ms=part.watermarks_ms,
        ingestion_times_us=part.ingestion_times_us,
    )
    core.handle(entered, NOW_US)
    status = told(core).sources["s"]
    # What came in and what was dropped add up to what there was.
    assert (status.next_seq, status.shed) == (2, 3)


def test_late_tuples_are_reported() -> None:
    sink = SinkAssignment(stream="s", columns=COLUMNS, deadline_ms=5.0)
    core = host(Assignment(incarnation="1", sinks=(sink,), producers={"s": ("one",)}))
    core.handle(SinkOpened(stream="s", durable=None), NOW_US)
    position = Position(next_seq=0, watermark_ms=0)
    answer = Subscribed(stream="s", position=position, epoch=1, generation=1)
    core.handle(MessageArrived(sender="one", message=answer), NOW_US)
    part = Data(
        stream="s",
        epoch=1,
        generation=1,
        chunk=chunk(0, [(NOW_US // 1000 - 6, 3), (NOW_US // 1000 - 5, 1)]),
    )
    core.handle(MessageArrived(sender="one", message=part), NOW_US)
    status = told(core).sinks["s"]
    assert (status.rows, status.late_rows, status.miss_pct) == (4, 3, 75.0)
    assert (status.completed_timestamps, status.deadline_misses) == (2, 1)
    assert status.recent_miss_pct == 75.0


def fed() -> HostCore:
    """A host with one fragment, for which four tuples of one timestamp have come."""
    core = host(Assignment(incarnation="1", fragments=(fragment("f"),), producers={"s": ("one",)}))
    assert told(core).replicas["f"].cost is None
    answer = Subscribed(stream="s", position=Position(), epoch=1, generation=1)
    core.handle(MessageArrived(sender="one", message=answer), NOW_US)
    asked = Subscribe(stream="f", position=None, generation=None)
    core.handle(MessageArrived(sender="exit", message=asked), NOW_US)
    part = Data(stream="s", epoch=1, generation=1, chunk=chunk(0, [(10, 4)]))
    core.handle(MessageArrived(sender="one", message=part), NOW_US)
    return core


def test_costs_of_replicas_are_reported() -> None:
    core = fed()
    core.charge(core.work(NOW_US), 4000.0)
    cost = told(core).replicas["f"].cost
    assert cost is not None
    assert (cost.samples, cost.per_tuple_us > 20.0) == (1, True)
    assert told(core).labels.domain == "rack-1"


def test_states_that_were_given_are_reported() -> None:
    core = host(Assignment(incarnation="1", fragments=(fragment("f"), fragment("g"))))
    core.snapshot_was_written("f", 1024, 1000.0, False)
    core.snapshot_was_written("gone", 1, 1.0, True)
    replica = told(core).replicas["f"]
    assert (replica.giving_bytes, replica.snapshot) == (1024, None)
    core.snapshot_was_written("f", 2048, 1500.0, True)
    replicas = told(core).replicas
    assert replicas["f"].giving_bytes is None
    assert replicas["f"].snapshot == SnapshotStatus(bytes=2048, ms=1.5)
    assert (replicas["g"].snapshot, replicas["f"].checkpoint_bytes) == (None, None)


def test_processor_time_of_host_and_replicas_is_reported() -> None:
    core = fed()
    assert told(core).load is None
    core.charge(core.work(NOW_US), 40_000.0)
    later_us = NOW_US + 20_000_000
    core.handle(CpuMeasured(load=0.25, speed=Speed(ratio=0.5)), later_us)
    record = told(core, later_us)
    assert record.load == HostLoad(
        cores=0.25, evaluating_cores=0.002, evaluations_s=0.05, speed=0.5, dispatch_us=DISPATCH_US
    )
    assert record.replicas["f"].load == ReplicaLoad(
        cores=0.002,
        evaluations_s=0.05,
        timestamps_s=0.05,
        tuples_s=0.2,
        emitted_s=0.2,
        emitted_bytes_s=row_bytes(COLUMNS) * 0.2,
        window_share=1.0,
    )
    assert record.processors == PROCESSORS
