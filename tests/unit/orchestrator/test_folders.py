"""Folders that are gone when their process is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.folders import PRIVATE, private_folder, scratch_folder

LEAVING = """\
import threading
from pathlib import Path
from orchestrator.deploy.entry_point import leave
from orchestrator.folders import scratch_folder

made = threading.Event()

def work():
    with scratch_folder() as folder:
        (folder / "rows").write_text("1")
        made.set()
        threading.Event().wait()

threading.Thread(target=work).start()
made.wait()
leave(0)
"""


def test_a_scratch_folder_is_gone_after_its_block() -> None:
    with scratch_folder() as folder:
        (folder / "rows").write_text("1")
    assert not folder.exists()


def test_a_process_that_leaves_takes_the_scratch_folders_of_its_threads_along(
    tmp_path: Path,
) -> None:
    environment = {"TMPDIR": str(tmp_path), "PATH": ""}
    subprocess.run([sys.executable, "-c", LEAVING], env=environment, timeout=60, check=True)
    assert list(tmp_path.iterdir()) == []


def mode(folder: Path) -> int:
    return folder.stat().st_mode & 0o777


def test_only_what_is_below_a_folder_of_somebody_else_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The top of a volume may be root's, and open to a group to which the process belongs."""
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(0o775)
    theirs = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: theirs + 1)
    assert private_folder(volume) == volume
    assert mode(volume) == 0o775
    assert mode(private_folder(volume / "streams")) == PRIVATE
    monkeypatch.undo()
    assert mode(private_folder(volume)) == PRIVATE


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make folders for others")
def test_another_user_works_in_the_folder_of_a_volume(tmp_path: Path) -> None:
    """Tried as a container does: by a process of another user, whose group may write."""
    volume = tmp_path / "volume"
    volume.mkdir()
    os.chown(volume, 0, 12345)
    volume.chmod(0o2775)
    if (child := os.fork()) == 0:
        status = 1
        try:
            # The folders above are closed to others.
            os.chdir(volume)
            os.setgid(12345)
            os.setuid(12345)
            private_folder(private_folder(Path()) / "streams")
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert mode(volume / "streams") == PRIVATE
