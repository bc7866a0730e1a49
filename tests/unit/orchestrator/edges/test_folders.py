"""Folders are closed to others, and names lead nowhere else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from foundation.bounds import MAX_NAME
from orchestrator.edges.drivers import DriverError
from orchestrator.edges.open_folders import OWNER, FolderClaim
from orchestrator.edges.sinks.archive import Archive
from orchestrator.folders import path_part, private_folder
from orchestrator.records import SinkAssignment


def mode(folder: Path) -> int:
    return folder.stat().st_mode & 0o777


def test_new_folders_are_closed(tmp_path: Path) -> None:
    assert mode(private_folder(tmp_path / "a" / "b")) == 0o700


def test_folders_that_were_open_are_closed(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o755)
    assert mode(private_folder(folder)) == 0o700


@pytest.mark.parametrize("name", ["north", "north-receiver", "q.f", "_x", "X1", "x" * MAX_NAME])
def test_names_that_are_parts_of_paths(name: str) -> None:
    assert path_part(name) == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../up", "a/b", "/etc", ".hidden", "a\\b", "a b", "a\n", "ä", "x" * 129, "a\0"],
)
def test_names_that_are_not(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be a part of a path"):
        path_part(name)


def test_an_archive_writes_nothing_outside_of_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    folder.mkdir()
    assignment = SinkAssignment(stream="../out", columns={"a": "int"}, deadline_ms=1.0)
    with pytest.raises(ValueError, match="cannot be a part of a path"):
        Archive().open(assignment, folder)
    assert list(tmp_path.rglob("*")) == [folder]


def test_a_folder_belongs_to_the_process_that_was_started_last(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    former = FolderClaim(folder, "here", "00000001a")
    former.check()
    successor = FolderClaim(folder, "here", "00000002b")
    for _ in range(2):
        with pytest.raises(DriverError, match="started later"):
            former.check()
        successor.check()


def test_of_two_that_start_at_the_same_moment_the_later_incarnation_has_the_folder(
    tmp_path: Path,
) -> None:
    later = FolderClaim(tmp_path, "here", "00000002b")
    earlier = FolderClaim(tmp_path, "here", "00000001a")
    later.check()
    with pytest.raises(DriverError):
        earlier.check()


def test_a_folder_that_was_removed_is_claimed_again(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    claim = FolderClaim(folder, "here", "00000001a")
    claim.check()
    shutil.rmtree(folder)
    claim.check()
    assert (folder / f"{OWNER}-here").read_text() == "00000001a"


def test_sites_of_one_machine_share_a_folder(tmp_path: Path) -> None:
    first = FolderClaim(tmp_path, "north", "00000001a")
    second = FolderClaim(tmp_path, "south", "00000002b")
    first.check()
    second.check()


def test_a_new_cluster_has_the_folder_of_a_former_one(tmp_path: Path) -> None:
    FolderClaim(tmp_path, "here", "0000000fa").check()
    FolderClaim(tmp_path, "here", "00000001b").check()


def test_a_folder_that_cannot_be_written_is_claimed_later(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.write_text("in the way")
    claim = FolderClaim(folder, "here", "00000001a")
    with pytest.raises((FileExistsError, NotADirectoryError)):
        claim.check()
    folder.unlink()
    claim.check()
    assert (folder / f"{OWNER}-here").read_text() == "00000001a"
