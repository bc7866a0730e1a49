"""helm on a platform."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.platform.client import Platform
from tests.platform.tools import Tool


class Helm:
    """One of the helms, and the platform that it speaks to.

    Parameters
    ----------
    home
        Folder for what it keeps.
    """

    def __init__(self, tool: Tool, platform: Platform, home: Path) -> None:
        if tool.missing:
            pytest.skip(f"{tool.name} is not there: `make setup-platform` fetches it")
        self._program = str(tool.helm)
        self._environment = {
            **os.environ, "KUBECONFIG": str(platform.kubeconfig), "HOME": str(home)
        }  # fmt: skip

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command; what it printed."""
        return subprocess.run(
            [self._program, *arguments],
            env=self._environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command, whose output nobody wants."""
        return subprocess.Popen(
            [self._program, *arguments],
            env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
