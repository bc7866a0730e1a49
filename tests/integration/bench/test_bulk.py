"""Bulk planning gives the same plan on this machine and on a standalone master."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.bulk import bulk
from bench.registry import Settings

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]


def test_a_standalone_master_with_two_workers_gives_the_same_plan(tmp_path: Path) -> None:
    said: list[str] = []
    # It raises if the plans differ.
    found = bulk(Settings(quick=True, folder=tmp_path, say=said.append, sizes=(100,)))
    assert found["100.standalone.refused"] == found["100.local.refused"]
    assert found["100.local.compared"] == 50
    # All are of one round: each of them alone may take what the round has left free.
    assert 0 <= found["100.local.difference_pct"] <= 15
    assert any(phrase.startswith("standalone: placement: round") for phrase in said)
