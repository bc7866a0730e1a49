"""Clients that are told when both replicas have what they sent; their site keeps nothing.

A client sends again what it got no response to, after its site was killed. What it got a response
to is nowhere but at the replicas.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from orchestrator.control.observe.view import read_view
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges import sources
from orchestrator.edges.events import SourceEmitted
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.edges.sources import recorded, spec_of
from orchestrator.edges.sources.driver import OpenSource, SourceContext, SourceDriver
from orchestrator.edges.sources.formats.rejections import RejectedInput
from orchestrator.edges.sources.live.confirmed_input import ConfirmedInput
from orchestrator.edges.sources.live.ingestion import BatchOutcome, Ingestion, Push
from orchestrator.edges.sources.live.orderer import EventTime
from orchestrator.edges.sources.replay import OpenReplay, Recording, Replay
from orchestrator.records import Guarantee, SourceAssignment, StreamRecord
from orchestrator.simulation.world.scenario import Scenario
from streams.vectors.chunk import stream_schema
from tests.long_tests import mostly_long
from tests.pairs import BEGIN_MS, SETTLE_S, Input, answer

INTERVAL_MS = 100

responded: dict[str, list[pa.RecordBatch]] = {}
"""Stream → the batches that the client was told of; the client outlives its site."""

late: list[Push] = []
"""What another client has sent too late."""

LATE_MS = BEGIN_MS + 500

AWAY_S = 14.0
"""A session of the store, and then some."""


class Sent(SourceDriver, frozen=True, kw_only=True):
    """A recording that a client sends."""

    path: str
    begin_ms: int
    end_ms: int

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.SENT

    def open(self, assignment: SourceAssignment, context: SourceContext) -> OpenSent:
        return OpenSent(self, assignment, context)


class OpenSent(OpenSource):
    """The open source, with the client's connection to it."""

    waits_for_consumers = True

    def __init__(self, options: Sent, a: SourceAssignment, context: SourceContext) -> None:
        replay = Replay(
            path=options.path,
            begin_ms=options.begin_ms,
            end_ms=options.end_ms,
            interval_ms=INTERVAL_MS,
        )
        time = EventTime(by_arrival=False, idle_after_ms=INTERVAL_MS, max_ahead_ms=None)
        self._stream = a.stream
        self._client = OpenReplay(a.stream, replay, Recording.load(replay, a.columns))
        self._input = ConfirmedInput(
            a.stream,
            Ingestion(stream_schema(a.columns), time, None, context.clock_us()),
            None,
            clock_us=context.clock_us,
            wake=context.wake,
            buffer_bytes=context.buffer_bytes,
            advance_us=INTERVAL_MS * 1000,
            rejections=RejectedInput(a.stream, None, context.clock_us),
        )
        self._known = len(responded.setdefault(a.stream, []))
        self._waiting: list[tuple[Push, pa.RecordBatch]] = []
        self._looked_us = 0

    def confirm(self, watermark_ms: int, had_ms: int) -> None:
        self._input.confirm(watermark_ms, had_ms)
        while self._waiting and self._waiting[0][0].done.is_set():
            responded[self._stream].append(self._waiting.pop(0)[1])

    def tuples_between(self, after_ms: int, until_ms: int) -> int:
        return self._input.tuples_between(after_ms, until_ms)

    def next_due_us(self, start_at_us: int) -> int | None:
        return max(start_at_us, self._looked_us + 20_000)

    def emit(self, start_at_us: int, now_us: int) -> SourceEmitted | None:
        if now_us < start_at_us:
            return None
        self._looked_us = now_us
        for rows in self._due(start_at_us, now_us):
            if self._known:
                # The client was told of it, and has forgotten it.
                self._known -= 1
                continue
            self._waiting.append((self._come(rows), rows))
        self._input.commit()
        return self._input.emit(start_at_us, now_us)

    def _come(self, rows: pa.RecordBatch) -> Push:
        """A batch comes in, whose client waits for the response: nothing else runs meanwhile."""
        self._input.push(rows, confirms=False)
        push = self._input._pushed[-1]  # pyright: ignore[reportPrivateUsage]
        push.confirms = True
        self._input.commit()
        return push

    def _due(self, start_at_us: int, now_us: int) -> Iterator[pa.RecordBatch]:
        """What the client has by now: a batch for each timestamp, so that they are always alike."""
        while (sent := self._client.emit(start_at_us, now_us)) is not None:
            stamps = sent.rows.column(0).to_numpy()
            for stamp in sorted(set(stamps.tolist())):
                yield sent.rows.filter(pa.array(stamps == stamp))

    def close(self) -> None:
        self._input.close()


class WithLate(Sent, frozen=True, kw_only=True):
    """Once its site was started again, another client sends one more tuple, which is late."""

    def open(self, assignment: SourceAssignment, context: SourceContext) -> OpenSent:
        return OpenWithLate(self, assignment, context)


class OpenWithLate(OpenSent):
    """The open source, with the other client."""

    def __init__(self, options: Sent, a: SourceAssignment, context: SourceContext) -> None:
        super().__init__(options, a, context)
        self._sends_late = self._known > 0

    def emit(self, start_at_us: int, now_us: int) -> SourceEmitted | None:
        if self._sends_late and now_us >= start_at_us:
            self._sends_late = False
            schema = self._input.schema
            values = [[LATE_MS], [3], [99]]
            arrays = [pa.array(v, f.type) for v, f in zip(values, schema, strict=True)]
            late.append(self._come(pa.RecordBatch.from_arrays(arrays, schema=schema)))
        return super().emit(start_at_us, now_us)


sources.register("sent", Sent)
sources.register("with-late", WithLate)


@pytest.fixture(autouse=True)
def a_client_that_knows_nothing() -> None:
    responded.clear()
    late.clear()


def sent(stream: StreamRecord, kind: type[Sent] = Sent, name: str = "sent") -> StreamRecord:
    replay = recorded(stream)
    assert isinstance(replay, Replay)
    made = kind(path=replay.path, begin_ms=replay.begin_ms, end_ms=replay.end_ms)
    return msgspec.structs.replace(stream, source=spec_of(name, made))


@pytest.mark.parametrize("seed", mostly_long(range(4)))
def test_what_was_responded_to_is_in_the_results_once_although_the_site_keeps_nothing(
    tmp_path: Path, seed: int
) -> None:
    recording = Input.random(seed=30 + seed, seconds=30)
    manifests = recording.manifests(tmp_path)
    streams = [sent(m.record) for m in manifests.streams]
    scenario = Scenario(
        manifests, seed=seed, streams=streams, check_invariants=True, settle_s=SETTLE_S
    )
    scenario.begin()
    scenario.run_for(2.0 + 0.137 * seed)
    for sites in (("west-site",), ("west-site", "east-site")):
        kill_for_a_while(scenario, *sites)
    node = read_view(scenario.store).fragments["pairing.strong"].record.primary.node
    scenario.kill(node)
    scenario.run_for(1.0)
    kill_for_a_while(scenario, "west-site")
    scenario.run_for(4.0)
    assert_exact(scenario, recording, BEGIN_MS + 10_000)
    for batches in responded.values():
        assert sum(batch.num_rows for batch in batches) > 100


def test_of_a_tuple_that_may_be_late_for_consumers_clients_are_told_that_nobody_knows(
    tmp_path: Path,
) -> None:
    manifests = Input.random(seed=30, seconds=30).manifests(tmp_path)
    streams = [sent(m.record, WithLate, "with-late") for m in manifests.streams]
    scenario = Scenario(manifests, seed=1, streams=streams, settle_s=SETTLE_S)
    scenario.begin()
    scenario.run_for(4.0)
    kill_for_a_while(scenario, "west-site")
    (push,) = late
    assert push.done.is_set()
    assert push.outcome == BatchOutcome(undecided=1, waiting=1)
    # Were it in the results, pairs at its timestamp with key 3 and twice 99 would be.
    kept = scenario.deliveries["pairs"]
    seen = Delivered.from_deliveries(kept, kept[0].chunk.rows.schema)
    assert not [row for row in answer(seen) if row[0] == LATE_MS and row[2] == 198]


@pytest.mark.parametrize("seed", mostly_long(range(4)))
def test_another_site_goes_on_where_the_first_one_stays_away(tmp_path: Path, seed: int) -> None:
    """The client sends to the other site what it got no response to."""
    recording = Input.random(seed=30 + seed, seconds=60)
    manifests = recording.manifests(tmp_path)
    streams = [
        msgspec.structs.replace(sent(m.record), standby=other)
        for m, other in zip(manifests.streams, ("east-site", "west-site"), strict=True)
    ]
    scenario = Scenario(
        manifests, seed=seed, streams=streams, check_invariants=True, settle_s=SETTLE_S
    )
    scenario.begin()
    scenario.run_for(2.0 + 0.137 * seed)
    scenario.world.kill("west-site")
    scenario.run_for(AWAY_S)
    assert read_view(scenario.store).entering["west"].feeding_site == "east-site"
    node = read_view(scenario.store).fragments["pairing.strong"].record.primary.node
    scenario.kill(node)
    scenario.run_for(2.0)
    # Now the first one comes back, and the other one is paused beyond its session: it still has
    # the source open, and goes on, when nobody reads from it any more.
    scenario.world.restart("west-site")
    scenario.run_for(4.0)
    scenario.world.pause("east-site")
    scenario.run_for(AWAY_S)
    scenario.world.resume(scenario.world.hosts["east-site"])
    scenario.run_for(6.0)
    streams = read_view(scenario.store).entering.values()
    assert {stream.feeding_site for stream in streams} == {"west-site"}
    assert_exact(scenario, recording, BEGIN_MS + 30_000)


def assert_exact(scenario: Scenario, recording: Input, beyond_ms: int) -> None:
    """Nothing was lost or repeated, and outputs have come further than some time."""
    history = " ".join(each.event.kind for each in scenario.store.history())
    assert "state lost" not in history
    assert "input lost" not in history
    for stream, expected in recording.expected().items():
        kept = scenario.deliveries[stream]
        seen = Delivered.from_deliveries(kept, kept[0].chunk.rows.schema)
        end_ms = int(seen.completed_column("watermark_ms")[-1])
        assert sequence_faults(seen) == SequenceFaults(lost=0, repeated=0)
        assert answer(seen) == [row for row in expected if row[0] <= end_ms]
        assert end_ms > beyond_ms


def kill_for_a_while(scenario: Scenario, *sites: str) -> None:
    for site in sites:
        scenario.world.kill(site)
    scenario.run_for(2.0)
    for site in sites:
        scenario.world.restart(site)
    scenario.run_for(4.0)
