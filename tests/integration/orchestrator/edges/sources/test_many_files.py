"""A folder with more files than a journal remembers names."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from orchestrator.edges.sources.live import journal
from tests.conftest import WaitUntil
from tests.integration.orchestrator.edges.sources.test_folder import Site


def test_files_that_were_read_are_not_refused_however_many_there_are(
    tmp_path: Path, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 16,384 in truth.
    monkeypatch.setattr(journal, "MOST_CLIENTS", 8)
    site = Site(tmp_path)
    for number in range(12):
        site.put(f"{number:02}.csv", number)
    source = site.open()
    wait_until(lambda: site.entered() == list(range(11)))
    time.sleep(0.2)
    status = source.status
    site.close()
    assert (status.malformed, status.last_rejected) == (0, None)
