"""Batches in parts, over real HTTP: all of a batch enters in order and once, or nothing of it."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pyarrow as pa
import pytest
from pyarrow import ipc

import vivace
from orchestrator.edges.sources.formats.row_form import RowForm
from orchestrator.edges.sources.http import COMMIT, Http
from orchestrator.edges.sources.live import batches as module
from orchestrator.edges.sources.live.batches import Batches
from orchestrator.edges.sources.live.ingestion import Full
from orchestrator.edges.sources.live.live_input import LiveInput
from orchestrator.edges.sources.live.live_source import Durability
from streams.vectors.chunk import stream_schema
from tests.integration.orchestrator.edges.sources.test_http import Site, entered, request

COLUMNS = {"number": "int", "name": "string"}
BY_NUMBER = Http(time_column="number", time_format="ms", idle_after_ms=None, max_ahead_ms=None)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "site")
    yield made
    made.close()


def rows(*numbers: int) -> dict[str, list[object]]:
    return {"number": list(numbers), "name": [str(n) for n in numbers]}


def connected(source: LiveInput, client: str = "writer") -> vivace.Stream:
    assert source.address is not None
    return vivace.site(source.address, client=client, patience_s=0.2).stream("north")


def test_parts_enter_together_in_order_and_once(site: Site) -> None:
    source = site.open(BY_NUMBER)
    stream = connected(source)
    stream.stage(rows(5, 3, 9), number=7, part="b")
    stream.stage(rows(2, 8, 4), number=7, part="a")
    assert entered(source) == []
    assert stream.commit(7, ["a", "b"]) == vivace.Sent(accepted=6, waiting=1)
    assert entered(source) == [2, 3, 4, 5, 8]
    assert stream.commit(7, ["a", "b"]) == vivace.Sent(repeated=1, waiting=1)
    # Another client's batches have numbers of their own.
    other = connected(source, "other")
    other.stage(rows(20), number=1, part="a")
    assert other.commit(1, ["a"]) == vivace.Sent(accepted=1, waiting=1)
    assert entered(source) == [9]
    assert source.status.late == 0


def test_a_known_batch_is_compared_by_its_rows_in_any_order_and_parts(site: Site) -> None:
    source = site.open(BY_NUMBER)
    stream = connected(source)
    stream.stage(rows(5, 3, 3), number=7, part="a")
    stream.stage(rows(9), number=7, part="b")
    assert stream.commit(7, ["a", "b"]).accepted == 4
    source.close()
    # The driver was killed before it noted the commit: its tasks run again.
    source = site.open(BY_NUMBER)
    stream = connected(source)
    stream.stage(rows(3, 9), number=7, part="x")
    stream.stage(rows(3, 5), number=7, part="y")
    assert stream.commit(7, ["x", "y"]) == vivace.Sent(repeated=1, waiting=1)
    # Another writer has the same name, or the query was begun anew.
    stream.stage(rows(3, 9, 3, 6), number=7, part="x")
    with pytest.raises(
        vivace.Refused, match="other rows entered before under client writer, number 7"
    ) as refused:
        stream.commit(7, ["x"])
    assert refused.value.status == 422
    assert source.status.malformed == 1
    # Nothing is compared that is not here, and nothing would be dropped.
    assert stream.commit(7, ["z"]) == vivace.Sent(repeated=1, waiting=1)


def test_a_part_that_is_sent_again_replaces_the_first(site: Site) -> None:
    source = site.open(BY_NUMBER)
    stream = connected(source)
    stream.stage(rows(1, 2), number=1, part="a")
    stream.stage(rows(3, 4), number=1, part="a")
    assert stream.commit(1, ["a"]).accepted == 2
    assert entered(source) == [3]


def test_what_is_aborted_or_missing_does_not_enter(site: Site) -> None:
    source = site.open(BY_NUMBER)
    stream = connected(source)
    stream.stage(rows(1, 2), number=1, part="a")
    stream.abort(1)
    with pytest.raises(vivace.Refused, match="part a of batch 1 is not here"):
        stream.commit(1, ["a"])
    assert stream.commit(2, []) == vivace.Sent()
    assert entered(source) == []


def test_a_site_that_is_killed_within_a_batch_goes_on_with_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECE_ROWS", 10)
    source = site.open(BY_NUMBER)
    stream = connected(source)
    stream.stage(rows(*range(50)), number=1, part="a")
    pushed: list[int] = []
    push = LiveInput.push

    def dies(self: LiveInput, batch: pa.RecordBatch, **given: object) -> object:
        if len(pushed) == 3:
            raise OSError("killed")
        pushed.append(batch.num_rows)
        return push(self, batch, **given)  # pyright: ignore[reportArgumentType]

    with monkeypatch.context() as patch:
        patch.setattr(LiveInput, "push", dies)
        with pytest.raises(vivace.Unavailable, match="killed"):
            stream.commit(1, ["a"])
    assert pushed == [10, 10, 10]
    source.close()
    again = site.open(BY_NUMBER)
    # Nobody commits it again.
    found: list[object] = []
    until = time.monotonic() + 60
    while len(found) < 49 and time.monotonic() < until:
        found += entered(again)
    assert found == list(range(49))
    assert connected(again).commit(1, ["a"]) == vivace.Sent(repeated=1, waiting=1)
    assert not list((site.folder / "batches").rglob("*.batch"))


def test_what_is_staged_is_bounded(site: Site, tmp_path: Path) -> None:
    source = site.open(BY_NUMBER)
    form = RowForm(columns=COLUMNS, time_column="number", time_format="ms")
    one = pa.RecordBatch.from_pydict(
        {"_ts": range(10_000), "number": range(10_000), "name": ["x"] * 10_000}, schema=form.schema
    )
    batches = Batches(tmp_path / "staged", form.schema, source, most_bytes=round(3.5 * one.nbytes))
    for number in range(5):
        # What a client left behind makes room for its next batch.
        batches.stage("first", number, "a", one)
    for part in "bcc":
        # The last one comes in place of the one before.
        batches.stage("first", 4, part, one)
    with pytest.raises(module.TooLarge, match="make batches smaller"):
        batches.stage("first", 4, "d", one)
    with pytest.raises(module.Full):
        batches.stage("second", 0, "a", one)
    for folder in (tmp_path / "staged").iterdir():
        os.utime(folder, (0, 0))
    batches.stage("second", 0, "a", one)
    # Another process counts what it finds.
    other = Batches(tmp_path / "staged", form.schema, source, most_bytes=one.nbytes)
    with pytest.raises(module.Full):
        other.stage("third", 0, "a", one)


def test_one_batch_enters_at_a_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENTERS_S", 0.01)
    source = site.open(BY_NUMBER, buffer_bytes=2000)
    first, second = connected(source, "first"), connected(source, "second")
    first.stage(rows(*range(100)), number=1, part="a")
    second.stage(rows(*range(100, 110)), number=1, part="a")
    # There is no room until the host takes something.
    source.push(pa.RecordBatch.from_pydict(
        {"_ts": range(-100, 0), "number": range(100), "name": ["x"] * 100},
        schema=RowForm(columns=COLUMNS).schema,
    ))  # fmt: skip
    waits = threading.Thread(target=lambda: _try(first), daemon=True)
    waits.start()
    found: list[object] = []
    until = time.monotonic() + 60
    while len(found) < 199 and time.monotonic() < until:
        found += entered(source)
    waits.join(60)
    _try(second)
    assert len(found + entered(source)) == 209


def _try(stream: vivace.Stream) -> None:
    while True:
        try:
            stream.commit(1, ["a"])
            return
        except vivace.Unavailable:
            continue


def test_without_a_journal_or_a_name_there_are_no_parts(site: Site) -> None:
    source = site.open(Http(durable=Durability.NOTHING))
    with pytest.raises(vivace.Refused, match="need a journal"):
        connected(source).stage(rows(1), number=1, part="a")
    kept = site.open(Http(), stream="south")
    assert kept.address is not None
    stream = vivace.site(kept.address, client="c").stream("south")
    with pytest.raises(vivace.Refused, match="number below"):
        stream.stage(rows(1), number=2**32, part="a")
    for part in ("../a", ".a", "a/b"):
        with pytest.raises(vivace.Refused, match="cannot be a part of a path"):
            stream.stage(rows(1), number=1, part=part)


def test_a_damaged_batch_of_one_client_does_not_refuse_those_of_others(site: Site) -> None:
    site.open(Http()).close()
    (folder,) = site.folder.glob("batches/north/*")
    (folder / ("0" * 32 + "-0.batch")).write_bytes(b"ARROW1\0\0" + bytes(100))
    source = site.open(Http())
    stream = connected(source)
    stream.stage(rows(1), number=0, part="a")
    assert stream.commit(0, ["a"]).accepted == 1
    assert source.status.malformed == 1
    assert "is damaged" in (site.folder / "north.rejected.jsonl").read_text()


def test_a_part_that_the_disk_has_damaged_is_to_be_written_again(site: Site) -> None:
    """Where the texts of a column lie is taken from the file: a wrong place would end the site."""
    source = site.open(Http())
    stream = connected(source)
    stream.stage(rows(1, 2, 3), number=0, part="a")
    (file,) = site.folder.glob("batches/north/*/*/a.arrow")
    offsets = struct.pack("<4i", 0, 1, 2, 3)
    content = file.read_bytes()
    assert content.count(offsets) == 1
    file.write_bytes(content.replace(offsets, struct.pack("<4i", 0, 2**30, 2, 3)))
    with pytest.raises(vivace.Refused, match=r"is damaged .* write the batch again"):
        stream.commit(0, ["a"])
    stream.stage(rows(1, 2, 3), number=0, part="a")
    assert stream.commit(0, ["a"]).accepted == 3


def test_a_committed_batch_is_looked_at_before_any_of_it_enters(site: Site) -> None:
    site.open(Http()).close()
    (folder,) = site.folder.glob("batches/north/*")
    schema = stream_schema(COLUMNS).with_metadata(
        {b"vivace.client": b"client writer", b"vivace.number": b"0"}
    )
    columns = {"_ts": [0, 0, 0], **rows(1, 2, 3)}
    batch = pa.RecordBatch.from_pydict(columns, schema=schema)
    file = folder / ("0" * 32 + "-0.batch")
    with file.open("wb") as raw, contextlib.closing(ipc.new_file(raw, schema)) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch)
    before, offsets, after = file.read_bytes().rpartition(struct.pack("<4i", 0, 1, 2, 3))
    file.write_bytes(before + offsets[:7] + b"\x7f" + offsets[8:] + after)
    source = site.open(Http())
    stream = connected(source)
    stream.stage(rows(1), number=0, part="a")
    assert stream.commit(0, ["a"]).accepted == 1
    assert "is damaged" in (site.folder / "north.rejected.jsonl").read_text()
    assert entered(source) == [1]


def test_what_could_not_be_staged_leaves_nothing_behind(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = site.open(BY_NUMBER)
    folder = tmp_path / "batches"
    batches = Batches(folder, source.schema, source, most_bytes=10_000_000)

    def on_a_full_disk(raw: IO[bytes], _: pa.Schema) -> None:
        raw.write(bytes(1000))
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(module, "_writer", on_a_full_disk)
        with pytest.raises(OSError, match="No space"):
            batches.stage("spark", 1, "a", pa.RecordBatch.from_pylist([], schema=source.schema))
    assert not [file for file in folder.rglob("*") if file.is_file()]


def test_a_part_that_finds_no_room_does_not_take_away_what_was_acknowledged(
    site: Site, tmp_path: Path
) -> None:
    """A task that is repeated, or runs twice, stages its part again."""
    source = site.open(BY_NUMBER)
    batches = Batches(tmp_path / "batches", source.schema, source, most_bytes=5000)

    def part(count: int) -> pa.RecordBatch:
        columns = [pa.array(range(count)), pa.array(range(count)), pa.array(["x"] * count)]
        return pa.RecordBatch.from_arrays(columns, schema=source.schema)

    batches.stage("spark", 1, "a", part(50))
    while True:
        # Another client fills what is left.
        try:
            batches.stage("other", 1, f"{time.monotonic_ns()}", part(10))
        except Full:
            break
    with pytest.raises(Full):
        batches.stage("spark", 1, "a", part(200))
    taken = batches.commit("spark", 1, ["a"])
    assert taken.accepted == 50


@pytest.mark.parametrize("kind", [COMMIT + "; charset=utf-8", COMMIT.upper()])
def test_a_commit_may_name_its_charset(site: Site, kind: str) -> None:
    source = site.open(BY_NUMBER)
    connected(source).stage(rows(1, 2, 3), number=1, part="a")
    status, document, _ = request(
        source,
        b'{"parts": ["a"]}',
        Content_Type=kind,
        Vivace_Client="writer",
        Vivace_Number="1",
    )
    assert status == 200, document


def test_a_committed_batch_enters_however_much_waits(site: Site) -> None:
    """All of it is here, and its client has been told so."""
    source = site.open(BY_NUMBER, waiting_bytes=10_000)
    stream = connected(source)
    same: dict[str, list[object]] = {"number": [5] * 1000, "name": ["x"] * 1000}
    stream.send(same, number=1)
    assert source.waits_for is not None
    stream.stage(rows(5), number=1, part="a")
    assert stream.commit(1, ["a"]).accepted == 1


def test_a_client_whose_response_was_lost_goes_on_although_much_waits(site: Site) -> None:
    """It sends again as docs/live-streams.md tells it, and has what ends the wait."""
    source = site.open(BY_NUMBER, waiting_bytes=10_000)
    same: dict[str, list[object]] = {"number": [5] * 1000, "name": ["x"] * 1000}
    assert connected(source).send(same, number=1).accepted == 1000
    # The response was lost, or its program was killed and started again: it sends batches 1, 2.
    again = connected(source)
    sent = again.send(same, number=1)
    assert sent == vivace.Sent(repeated=1, waiting=1000)
    assert again.send(rows(6), number=2) == vivace.Sent(accepted=1, waiting=1)


def test_a_batch_may_have_more_parts_than_files_may_be_open(site: Site) -> None:
    """One for each task of a batch of Spark."""
    source = site.open(Http())
    own = Batches(site.folder / "own", source.schema, source, most_bytes=2**30)
    columns = {"_ts": [0], "number": [1], "name": ["a"]}
    row = pa.RecordBatch.from_pydict(columns, schema=source.schema)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = len(os.listdir("/proc/self/fd"))
    parts = [f"{number}-x-0" for number in range(100)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 50, hard))
    try:
        for part in parts:
            own.stage("c", 0, part, row)
        assert own.commit("c", 0, parts).accepted == len(parts)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
