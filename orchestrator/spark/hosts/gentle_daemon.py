"""Spark's Python daemon, which takes breaks while it loads: `python -m …gentle_daemon`.

When an executor has died, Spark starts another one, and a host loads its libraries there, which
takes more than a second of processor time. On a machine with few processors, this would delay the
hosts that do the work meanwhile. Nobody waits for the new host: its fragments run elsewhere. So the
daemon, and the processes that it forks, sleep between any two imports, for `SLEEP` times as long as
the first of them took.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

SLEEP = 2.0
"""A host that loads uses a third of a processor."""

LONGEST_S = 0.5
"""Longest of all breaks."""


class Breaks(MetaPathFinder):
    """Finds no module, but sleeps before others look for one.

    Parameters
    ----------
    used_s
        Processor time of this process so far.
    sleep
        Sleeps for some seconds.
    """

    def __init__(
        self,
        used_s: Callable[[], float] = time.process_time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._used_s = used_s
        self._sleep = sleep
        self._since_s = used_s()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Take a break."""
        # A process that was forked has used nothing yet.
        used_s = max(self._used_s() - self._since_s, 0.0)
        self._sleep(min(SLEEP * used_s, LONGEST_S))
        self._since_s = self._used_s()
        return None


def take_breaks() -> None:
    """Sleep between imports from now on."""
    sys.meta_path.insert(0, Breaks())


def work_on() -> None:
    """Take no breaks any more: the host is loaded."""
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, Breaks)]


def main() -> None:
    """Be the daemon."""
    take_breaks()
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    # By its own name, under which `work_on` looks for the breaks.
    from orchestrator.spark.hosts import gentle_daemon

    gentle_daemon.main()
