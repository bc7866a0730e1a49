"""A process of a benchmark ends with the benchmark, also when that is killed.

The benchmark holds the other end of the process's standard input, a pipe. The kernel closes that
end with the benchmark, however it ends. Parents would tell less: whoever started the benchmark may
end before it, as a shell does from which it was put into the background.
"""

from __future__ import annotations

import os
import threading


def end_with_input() -> None:
    """From now on, exit at once when standard input ends; nothing else may read from it."""
    threading.Thread(target=_follow, name="lifeline", daemon=True).start()


def _follow() -> None:
    # Not `sys.stdin`, whose lock a daemon thread would hold when Python ends.
    while os.read(0, 4096):
        pass
    os._exit(1)
