"""A process of a benchmark ends with the benchmark, also when that is killed.

The benchmark holds the other end of the process's standard input, a pipe. The kernel closes that
end with the benchmark, however it ends. Parents would tell less: whoever started the benchmark may
end before it, as a shell does from which it was put into the background.
"""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path


def end_with_input(folder: Path) -> None:
    """From now on, exit at once when standard input ends; nothing else may read from it.

    Parameters
    ----------
    folder
        The benchmark would remove it, had it not been killed.
    """
    threading.Thread(target=_follow, args=(folder,), name="lifeline", daemon=True).start()


def _follow(folder: Path) -> None:
    # Not `sys.stdin`, whose lock a daemon thread would hold when Python ends.
    while os.read(0, 4096):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)
