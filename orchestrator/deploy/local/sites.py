"""Sites on this machine: host processes of their own, beside Spark."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

import orchestrator
from orchestrator.deploy.embedded.leash import LeashedProcess
from orchestrator.records import HostSpec

_shell = 'exec "$@" < "$0"'
"""Gives a program a file as its standard input, and becomes it."""


class Site:
    """The process of one site, started again when it ends.

    Parameters
    ----------
    spec
        What it is started with. The secret in it travels through a file that only its owner can
        read, because a leashed process is given no other input, and arguments are public.
    folder
        For its log and that file.
    """

    def __init__(self, spec: HostSpec, folder: Path) -> None:
        self.name = spec.node
        self.log = folder / f"site-{spec.node}.log"
        self._spec_file = folder / f".site-{spec.node}.json"
        self._spec = spec
        self._process: LeashedProcess | None = None

    def start(self) -> None:
        """Start the process; what is left of an earlier one is ended first."""
        self.stop()
        handle = os.open(self._spec_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(self._spec) + b"\n")
        root = str(Path(orchestrator.__file__).resolve().parent.parent)
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        program = [sys.executable, "-m", "orchestrator.host.process"]
        self._process = LeashedProcess(
            ["/bin/sh", "-c", _shell, str(self._spec_file), *program],
            log=self.log,
            env={**os.environ, "PYTHONPATH": path},
        )

    @property
    def ended(self) -> int | None:
        """Exit status, None while it runs."""
        return None if self._process is None else self._process.poll()

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        self._spec_file.unlink(missing_ok=True)
