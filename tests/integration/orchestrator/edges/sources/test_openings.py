"""A source whose opening has failed is opened again once it can be."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from orchestrator.edges.drivers import DriverError
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.edges.sources.http import Http
from orchestrator.edges.sources.live import batches, waiting_tuples
from orchestrator.edges.sources.live.live_input import LiveInput
from orchestrator.records import Guarantee, SourceAssignment, SourceSpec

OPTIONS = Http(
    time_column="number", time_format="ms", slack_ms=10**6, idle_after_ms=None, max_ahead_ms=None
)


def open_it(folder: Path, *, buffer_bytes: int = 100_000) -> LiveInput:
    assigned = SourceAssignment(
        stream="north",
        columns={"number": "int"},
        source=SourceSpec(driver="http", guarantee=Guarantee.JOURNALED),
        start_at_us=None,
    )
    context = SourceContext(folder=folder, clock_us=lambda: 10**12, buffer_bytes=buffer_bytes)
    source = OPTIONS.open(assigned, context)
    assert isinstance(source, LiveInput)
    return source


def full(*_: Any, **__: Any) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")


def send(source: LiveInput, number: int) -> None:
    stamps = pa.array([number] * 1000)
    rows = pa.RecordBatch.from_arrays([stamps, stamps], schema=source.schema)
    source.push(rows, client="c", number=number)


def test_a_source_opens_again_once_there_is_room_for_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its disk was full when a site started again at which more waits than memory holds."""
    source = open_it(tmp_path / "site")
    for number in range(20):
        send(source, number)
    source.close()
    with monkeypatch.context() as patched:
        patched.setattr(waiting_tuples.tempfile, "TemporaryFile", full)
        with pytest.raises(DriverError, match="No space left"):
            open_it(tmp_path / "site")
    # Somebody has made room.
    again = open_it(tmp_path / "site")
    again.close()


def test_a_source_opens_again_whose_folder_of_batches_could_not_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(batches, "private_folder", full)
        with pytest.raises(DriverError, match="No space left"):
            open_it(tmp_path / "site")
    open_it(tmp_path / "site").close()
