"""A host's process for trials of statements: so its loop is never delayed, whatever they take.

It starts with the first trial, which takes seconds, and ends after a while without one. It yields
the processors to the hosts. It ends with its host, however that ends
(`orchestrator.embedded.child_process`), and is killed if a trial lasts too long.

This file is also the program of that process (`python -m orchestrator.host.shell.trial_process`).
Trials come through a socket that is its standard input, a line of JSON each, and their results go
back through it.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable

import msgspec

from orchestrator.embedded.child_process import ChildProcess
from orchestrator.embedded.linked_child import linked_child, yield_processors
from orchestrator.host.shell.trial import run_trial
from orchestrator.records import Trial, TrialResult
from orchestrator.records.host_trials import LONGEST_S

IDLE_S = 60.0
"""After so long without a trial the process ends: a second `apply` soon after finds it running."""

PROGRAM = (sys.executable, "-m", "orchestrator.host.shell.trial_process")

_log = logging.getLogger("vivace.host")


class TrialProcess:
    """Runs trials in a process of their own, one at a time.

    Parameters
    ----------
    now_s
        A clock that never goes back.
    longest_s
        How long a trial may last.
    """

    def __init__(
        self, now_s: Callable[[], float] = time.monotonic, longest_s: float = LONGEST_S
    ) -> None:
        self._now_s = now_s
        self._longest_s = longest_s
        self._lock = threading.Lock()
        self._closed = False
        self._used_s = 0.0
        self._process: ChildProcess | None = None
        self._link: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        """The process's supervisor; None if it does not run."""
        return None if self._process is None else self._process.pid

    def run(self, trial: Trial) -> TrialResult:
        """The result of a trial; without one if the process has ended or had to be killed."""
        began_s = self._now_s()
        try:
            link = self._started()
            link.settimeout(self._longest_s)
            link.sendall(msgspec.json.encode(trial) + b"\n")
            with link.makefile("rb") as lines:
                return msgspec.json.decode(lines.readline(), type=TrialResult)
        except (OSError, msgspec.DecodeError) as error:
            _log.warning("a trial gave no result: %r", error)
            self._end()
            waited_us = round((self._now_s() - began_s) * 1e6)
            return TrialResult(tried={}, recorded=(), took_us=waited_us)
        finally:
            self._used_s = self._now_s()

    def end_if_idle(self) -> float | None:
        """End the process after `IDLE_S` without a trial; how long that is from now, seconds."""
        if self._process is None:
            return None
        left_s = self._used_s + IDLE_S - self._now_s()
        if left_s > 0:
            return left_s
        self._end()
        return None

    def close(self) -> None:
        """End the process, also during a trial, and start none any more."""
        with self._lock:
            self._closed = True
        self._end()

    def _started(self) -> socket.socket:
        """A link to the process, which is started if it does not run."""
        if self._link is not None:
            return self._link
        with self._lock:
            if self._closed:
                raise ConnectionAbortedError("the host ends")
            self._process, link = linked_child(PROGRAM)
            self._link = link
        return link

    def _end(self) -> None:
        with self._lock:
            process, self._process = self._process, None
            link, self._link = self._link, None
        if process is not None:
            process.kill()
        if link is not None:
            link.close()


def main() -> None:
    """Run trials until the host closes the link."""
    yield_processors()
    decoder = msgspec.json.Decoder(Trial)
    with socket.socket(fileno=os.dup(0)) as link, link.makefile("rwb") as lines:
        for line in lines:
            lines.write(msgspec.json.encode(run_trial(decoder.decode(line))) + b"\n")
            lines.flush()


if __name__ == "__main__":
    main()
