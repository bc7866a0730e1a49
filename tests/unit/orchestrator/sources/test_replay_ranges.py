"""A replay whose manifest names a short interval, or a generous range around a small file."""

from __future__ import annotations

import time
from pathlib import Path

from orchestrator.errors import InvalidInput
from orchestrator.manifest import load
from orchestrator.records import SourceAssignment
from orchestrator.sources.source_drivers import SourceDrivers

STREAM = """\
kind: Stream
name: s
site: a
columns: {{number: int}}
rate: 1 KB/s
from:
  replay: {{path: small.csv, begin: "{begin}", end: "{end}"{more}}}
"""


def write(folder: Path, begin: str, end: str, more: str = "") -> Path:
    (folder / "small.csv").write_text("timestamp,number\n1633608001000,1\n", encoding="utf-8")
    file = folder / "stream.yaml"
    file.write_text(STREAM.format(begin=begin, end=end, more=more), encoding="utf-8")
    return file


def assigned(file: Path) -> SourceAssignment:
    (stream,) = load([file]).streams
    return SourceAssignment(
        stream="s", columns=stream.record.columns, source=stream.record.source, start_at_us=None
    )


def test_interval_below_a_millisecond_is_played_or_refused_by_its_name(tmp_path: Path) -> None:
    more = ", interval: 0.5 ms"
    file = write(tmp_path, "2021-10-07T12:00:00Z", "2021-10-07T12:00:02Z", more)
    try:
        assignment = assigned(file)
    except InvalidInput as refused:
        assert "interval" in str(refused)
        return
    drivers = SourceDrivers()
    drivers.feed([assignment], 0)
    assert not drivers.failures


def around(folder: Path) -> SourceDrivers:
    """One tuple, and two months around it: five million seconds are no tuples.

    The site's loop opens a source itself (`HostLoop.turn`): meanwhile it hears and sends nothing,
    for any other stream either.
    """
    file = write(folder, "2021-10-01T00:00:00Z", "2021-12-01T00:00:00Z")
    drivers = SourceDrivers()
    drivers.feed([assigned(file)], 0)
    assert not drivers.failures
    return drivers


def test_range_around_a_small_file_does_not_make_the_site_deaf(tmp_path: Path) -> None:
    began_s = time.process_time()
    around(tmp_path)
    took_s = time.process_time() - began_s
    # After a second its credit counts for nothing, and peers suspect it.
    assert took_s < 1.0
