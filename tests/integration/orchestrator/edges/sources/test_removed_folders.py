"""The site's folder is removed while its sources run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import vivace
from orchestrator.edges.drivers import DriverError
from orchestrator.edges.open_folders import FilesGone
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.edges.sources.http import Http
from orchestrator.edges.sources.live.batches import Batches
from orchestrator.edges.sources.live.live_source import Durability
from orchestrator.edges.sources.source_drivers import SourceDrivers
from orchestrator.records import Guarantee, SourceAssignment, SourceSpec
from tests.conftest import WaitUntil
from tests.integration.orchestrator.edges.sources.test_http import NOW_US, Site, accepted, request

ROW = b"number,name\n1,a\n"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "site")
    yield made
    made.close()


def test_a_client_is_told_that_the_journal_is_gone(site: Site) -> None:
    source = site.open(Http())
    assert request(source, ROW)[1] == accepted(1)
    shutil.rmtree(site.folder)
    status, document, _ = request(source, ROW)
    assert status == 503
    assert "was removed or replaced while it was being written" in document["error"]


def test_a_stream_whose_journal_is_removed_stops_and_says_what_to_do(
    tmp_path: Path, wait_until: WaitUntil
) -> None:
    """When it happens, though no client sends anything."""
    folder = tmp_path / "site"
    assigned = SourceAssignment(
        stream="north",
        columns={"number": "int", "name": "string"},
        source=SourceSpec(driver="http", guarantee=Guarantee.JOURNALED),
        start_at_us=1,
    )
    # It had started before this process.
    context = SourceContext(folder=folder, clock_us=lambda: NOW_US)
    Http().input(msgspec.structs.replace(assigned, start_at_us=None), context).close()
    made = SourceDrivers(context=context)
    now_us = 0

    def problem() -> str:
        nonlocal now_us
        now_us += 40_000_000
        made.feed([assigned], now_us)
        return made.failures.get("north", "")

    try:
        assert not problem()
        shutil.rmtree(folder)
        wait_until(lambda: "is gone, and consumers rely on its numbers" in problem())
        assert "delete the stream and apply it again" in problem()
    finally:
        made.close()


def test_what_needs_no_journal_goes_on(site: Site) -> None:
    source = site.open(Http(durable=Durability.NOTHING, idle_after_ms=None))
    assert request(source, b"{nonsense")[0] == 400
    shutil.rmtree(site.folder)
    assert request(source, b"{nonsense")[0] == 400
    assert (site.folder / "north.rejected.jsonl").exists()
    assert request(source, ROW)[1] == accepted(1)


def test_tuples_that_wait_find_their_folder_again(site: Site) -> None:
    options = Http(
        time_column="number", time_format="ms", idle_after_ms=None, durable=Durability.NOTHING
    )
    source = site.open(options, buffer_bytes=100_000)
    same = b'{"number": 5, "name": "x"}\n' * 1000
    for number in range(8):
        if number == 4:
            shutil.rmtree(site.folder)
        status, document, _ = request(source, same)
        assert (status, document.get("accepted")) == (200, 1000), document


def test_parts_of_a_batch_that_are_gone_are_written_again(site: Site, tmp_path: Path) -> None:
    source = site.open(Http(durable=Durability.MACHINE))
    folder = tmp_path / "batches"
    one = pa.RecordBatch.from_pydict(
        {"_ts": [0] * 100, "number": [1] * 100, "name": ["x"] * 100}, schema=source.schema
    )
    batches = Batches(folder, source.schema, source, most_bytes=2 * one.nbytes)
    batches.stage("c", 0, "a", one)
    shutil.rmtree(folder)
    with pytest.raises(ValueError, match="part a of batch 0 is not here: write the batch again"):
        batches.commit("c", 0, ["a"])
    # What is gone takes no room.
    batches.stage("c", 0, "a", one)
    assert batches.commit("c", 0, ["a"]).accepted == 100
    shutil.rmtree(folder)
    assert batches.commit("c", 1, []).accepted == 0


def test_a_journal_that_is_removed_within_a_batch_in_parts_is_said(site: Site) -> None:
    source = site.open(Http())
    assert source.address is not None
    stream = vivace.site(source.address, client="c", patience_s=0.2).stream("north")
    stream.stage({"number": [1], "name": ["a"]}, number=0, part="a")
    shutil.rmtree(site.folder / "journal")
    with pytest.raises(vivace.Unavailable, match="was removed or replaced"):
        stream.commit(0, ["a"])
    with pytest.raises(FilesGone):
        source.next_due_us(0)
    with pytest.raises(DriverError):
        source.push(pa.RecordBatch.from_pylist([], schema=source.schema))
