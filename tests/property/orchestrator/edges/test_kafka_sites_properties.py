"""Two sites that read a topic in different portions, and are restarted, number it alike."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.edges.sources.live.ingestion import Ingestion, Push
from orchestrator.edges.sources.live.journal import Journal
from orchestrator.edges.sources.live.orderer import EventTime
from orchestrator.edges.sources.live.partitions import PartitionMerge
from streams.vectors.chunk import stream_schema

SCHEMA = stream_schema({"number": "int"})

topics = st.lists(
    st.lists(st.integers(min_value=0, max_value=30), min_size=1, max_size=12),
    min_size=1,
    max_size=3,
)
"""Timestamps of the messages of each partition, out of order."""


class Site:
    """Reads portions that it draws, and keeps a journal."""

    def __init__(self, topic: list[list[int]], slack_ms: int, folder: Path, data: st.DataObject):
        self.topic, self.slack_ms, self.folder, self.data = topic, slack_ms, folder, data
        self.now_us = 10**15
        self.rows: list[tuple[int, int]] = []
        self.restarts = 2

    def read(self) -> None:
        while not self._read_on():
            pass

    def _read_on(self) -> bool:
        """Read until it is restarted; returns whether the end was reached."""
        journal = Journal(self.folder, SCHEMA, retain_bytes=2**20, sync=False)
        time = EventTime(
            by_arrival=False,
            slack_ms=self.slack_ms,
            idle_after_ms=None,
            max_ahead_ms=None,
            one_by_one=True,
        )
        ingestion = Ingestion(SCHEMA, time, journal)
        merge = PartitionMerge(SCHEMA, waits=True, idle_after_us=None, by_key=True)
        offsets: dict[int, int] = {}
        for number in range(len(self.topic)):
            merge.begin(number, 0)
            offsets[number] = journal.clients.last(f"p{number}") or 0
        while left := [n for n, own in enumerate(self.topic) if offsets[n] < len(own)]:
            number = self.data.draw(st.sampled_from(left))
            first, own = offsets[number], self.topic[number]
            last = self.data.draw(st.integers(min_value=first + 1, max_value=len(own)))
            stamps = own[first:last]
            rows = pa.RecordBatch.from_pydict(
                {"_ts": stamps, "number": [100 * number + n for n in range(first, last)]},
                schema=SCHEMA,
            )
            merge.add(number, rows, np.arange(first, last), last, self.now_us)
            offsets[number] = last
            while (merged := merge.take(self.now_us)) is not None:
                places = [(f"p{n}", place) for n, place in merged.places.items()]
                self.now_us += 1000
                push = Push(merged.rows, self.now_us, places=places)
                for chunk in ingestion.take([push], self.now_us):
                    stamps_, numbers = (column.to_pylist() for column in chunk.rows.columns)
                    assert chunk.first_seq == len(self.rows)
                    self.rows += zip(stamps_, numbers, strict=True)
            if self.restarts and self.data.draw(st.integers(min_value=0, max_value=4)) == 4:
                self.restarts -= 1
                journal.close()
                return False
        journal.close()
        return True


@settings(max_examples=60, deadline=None)
@given(topic=topics, slack_ms=st.integers(min_value=0, max_value=10), data=st.data())
def test_both_number_alike(topic: list[list[int]], slack_ms: int, data: st.DataObject) -> None:
    read: list[list[tuple[int, int]]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a", "b"):
            site = Site(topic, slack_ms, Path(folder) / name, data)
            site.read()
            read.append(site.rows)
    assert read[0] == read[1]
