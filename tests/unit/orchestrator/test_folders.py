"""Folders that are gone when their process is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from orchestrator.folders import scratch_folder

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
