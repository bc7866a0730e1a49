"""What `vivace savepoint` says to do next can be done."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.console import Console

from orchestrator.cli.savepoint import details
from orchestrator.deploy.restoring import find_savepoint
from orchestrator.results.savepoints import SavepointStatus
from tests.saved_cluster import SavedCluster


def hinted(folder: str) -> str:
    """What is to follow `--from`."""
    status = SavepointStatus(
        name="before",
        state="kept",
        asked_us=0,
        ended_us=1,
        by="somebody",
        bytes=0,
        copied_bytes=0,
        queries=(),
        states=(),
        left_out={},
        folder=folder,
        why="",
    )
    console = Console(width=400)
    with console.capture() as captured:
        console.print(details(status))
    found = re.search(r"--from (\S+)`", captured.get())
    assert found is not None
    return found[1]


def test_the_hint_names_what_another_cluster_finds(tmp_path: Path) -> None:
    savepoint = SavedCluster(tmp_path / "state").save()
    kept = Path(savepoint.files.where)
    hint = hinted(str(kept.parent)).replace("before", kept.name)
    assert find_savepoint(hint, None).index == savepoint.index


@pytest.mark.parametrize(
    ("folder", "hint"),
    [
        ("", "before"),
        ("s3://bucket/state/savepoints", "s3://bucket/state/savepoints/before"),
        ("s3://b/savepoints?scheme=http", "'s3://b/savepoints/before?scheme=http'"),
    ],
)
def test_it_is_the_uri_where_there_is_no_path(folder: str, hint: str) -> None:
    assert hinted(folder) == hint
