"""The folder of checkpoints: a file is there as a whole, or not at all."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.checkpoints import checkpoint_folder
from orchestrator.checkpoints.checkpoint_file import CheckpointRefused
from orchestrator.checkpoints.checkpoint_folder import CheckpointFolder, checked_folder

NAME = "7-1000-n1.checkpoint"


@pytest.fixture(params=["path", "uri", "objects"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointFolder:
    if request.param == "path":
        return CheckpointFolder(str(tmp_path / "state"))
    if request.param == "uri":
        return CheckpointFolder(f"file://{tmp_path}/state")
    # In the memory of the process, as an object store has it.
    return CheckpointFolder(f"mock://{tmp_path.name}")


def test_what_was_written_is_read_listed_and_deleted(folder: CheckpointFolder) -> None:
    assert folder.write("q.f", NAME, [b"one", b"two"]) == 6
    assert folder.read("q.f", NAME) == b"onetwo"
    assert folder.names() == {"q.f": [NAME]}
    folder.delete("q.f", NAME)
    folder.delete("q.f", NAME)
    assert folder.names().get("q.f", []) == []
    with pytest.raises(CheckpointRefused, match="is not in"):
        folder.read("q.f", NAME)


def test_a_folder_without_anything_has_no_names(tmp_path: Path) -> None:
    assert CheckpointFolder(str(tmp_path / "none")).names() == {}


def test_a_process_that_ends_while_it_writes_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = CheckpointFolder(str(tmp_path / "state"))

    def parts() -> Iterator[bytes]:
        yield b"one"
        (partial,) = folder.names()["q.f"]
        assert partial.startswith(f".{NAME}.")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(CheckpointRefused, match=r"state, is full\. Make room"):
        folder.write("q.f", NAME, parts())
    assert not any((tmp_path / "state" / "q.f").iterdir())


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "is full. Make room"),
        (errno.EDQUOT, "its quota is used up"),
        (errno.EROFS, "is read-only. Mount it"),
        (errno.EACCES, "may not be written by this process"),
        (errno.ESTALE, "was unmounted"),
        (errno.EIO, "takes no checkpoint"),
    ],
)
def test_each_fault_of_a_disk_has_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    def fails(_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(checkpoint_folder, "sync", fails)
    with pytest.raises(CheckpointRefused, match=said.replace(".", r"\.")):
        CheckpointFolder(str(tmp_path / "state")).write("q.f", NAME, [b"one"])


def test_a_folder_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    folder = CheckpointFolder(str(tmp_path / "state"))
    folder.write("q.f", NAME, [b"one"])
    shutil.rmtree(tmp_path / "state")
    with pytest.raises(CheckpointRefused, match=r"is gone\. Bring it back"):
        folder.write("q.f", NAME, [b"two"])
    assert not (tmp_path / "state").exists()


def test_a_uri_without_a_file_system_is_refused() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        checked_folder("nowhere://bucket")
