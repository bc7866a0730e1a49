"""A replay whose manifest names a short interval, or a generous range around a small file."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import InvalidInput
from orchestrator.manifest import load

STREAM = """\
kind: Stream
name: s
site: a
columns: {{number: int}}
rate: 1 KB/s
from:
  replay: {{path: small.csv, begin: "{begin}", end: "{end}"{more}}}
"""


@pytest.mark.parametrize(
    ("end", "more", "message"),
    [
        ("2021-10-07T12:00:02Z", ", interval: 0.5 ms", "interval: '0.5 ms' is no whole number"),
        ("2021-10-07T12:00:02Z", ", speed: 5.0e-324", "speed: 5.0e-324 is not from"),
        ("2031-10-07T12:00:00Z", "", "end: .* is 315,532,800 intervals of 1000 ms"),
    ],
)
def test_what_a_site_could_not_play_is_refused(
    tmp_path: Path, end: str, more: str, message: str
) -> None:
    """It would divide by zero, be due never, or fill the memory of the site."""
    file = tmp_path / "stream.yaml"
    text = STREAM.format(begin="2021-10-07T12:00:00Z", end=end, more=more)
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match=message):
        load([file])
