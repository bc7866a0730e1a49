"""A state of 200 MB passes over a real link, while heartbeats go on."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest

from ha.messages import Control, Snapshot
from orchestrator.clock import now_us
from orchestrator.host.core.events import MessageArrived, PeerLost
from orchestrator.host.core.preparation import SnapshotPreparations
from orchestrator.host.shell.parts import PART_BYTES, PARTS_UNDER_WAY
from orchestrator.host.shell.transport import FramesArrived, KeyPair, Transport
from orchestrator.host.shell.wire import UnreadSnapshot, begin_decoding, encode, encode_frames
from orchestrator.records import Peer
from streams.evaluate.engine import FragmentEngine
from streams.vectors.chunk import Chunk, Position, stream_schema
from tests.unit.streams.running import program

COLUMNS = {"i": "int", "x": "float", "y": "float"}
STATEMENT = program(
    "ISTREAM(SELECT i, x, y FROM s [ROWS 10000000] WHERE x < y AND i < 0)", {"s": COLUMNS}
)
ROWS = 5_000_000


def filled() -> FragmentEngine:
    engine = FragmentEngine(STATEMENT)
    schema = stream_schema(COLUMNS)
    for number in range(10):
        ids = np.arange(ROWS // 10) + number * (ROWS // 10)
        stamps = np.full(len(ids), number + 1)
        columns = [stamps, ids, ids * 0.5, ids * 0.25]
        rows = pa.RecordBatch.from_arrays([pa.array(one) for one in columns], schema=schema)
        now_ms = np.array([number + 1])
        chunk = Chunk(
            first_seq=int(ids[0]), rows=rows, watermarks_ms=now_ms, ingestion_times_us=now_ms
        )
        engine.offer("s", chunk)
        engine.advance(1)
    return engine


def peer(transport: Transport, keys: KeyPair) -> Peer:
    return Peer(
        node=transport.node,
        incarnation="1",
        endpoint=transport.endpoint,
        public_key=keys.public.decode(),
        delay_ms=0,
    )


@pytest.mark.slow
def test_a_state_of_200_megabytes_arrives_among_heartbeats() -> None:
    engine = filled()
    snapshot = Snapshot(
        fragment="q",
        epoch=1,
        generation=1,
        state=engine.snapshot(),
        inputs={"s": (1, Position())},
        log_base=Position(),
        log=(),
        consumers=(),
    )
    preparations = SnapshotPreparations()
    prepared: Snapshot | None = None
    sent = heard = 0
    keys, other_keys = KeyPair.generate(), KeyPair.generate()
    with (
        closing(Transport("one", keys, "127.0.0.1", now_us)) as one,
        closing(Transport("other", other_keys, "127.0.0.1", now_us)) as other,
    ):
        peers = [peer(one, keys), peer(other, other_keys)]
        one.set_peers(peers)
        other.set_peers(peers)
        one.send_bulk("other", "q", encode_frames(snapshot))
        while prepared is None:
            one.send("other", encode(Control(epochs={"q": sent})))
            sent += 1
            assert not any(isinstance(item, PeerLost) for item in one.receive(1000))
            for item in other.receive(1000):
                assert isinstance(item, FramesArrived)
                message = begin_decoding(item.frames, lambda _: stream_schema(COLUMNS))
                if isinstance(message, UnreadSnapshot):
                    preparations.add(item.sender, message.snapshot, STATEMENT, message.log)
                else:
                    assert message == Control(epochs={"q": heard})
                    heard += 1
            arrived = preparations.step()
            if arrived is not None:
                assert isinstance(arrived, MessageArrived)
                assert isinstance(arrived.message, Snapshot)
                prepared = arrived.message
        size = one.counters["bytes_sent"]
    assert size > 200_000_000
    # No heartbeat waited for more than the parts that may be under way.
    assert heard > size / (PARTS_UNDER_WAY * PART_BYTES)
    restored = FragmentEngine(STATEMENT)
    restored.restore(prepared.state)
    assert restored.positions() == engine.positions()
    assert restored.snapshot() == snapshot.state
