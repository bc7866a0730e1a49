"""A host that leaves the session in which Spark started it."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os
from orchestrator.host.shell.own_process import begin_session
before = os.getsid(0)
begin_session()
first = os.getsid(0)
begin_session()
print(before == os.getpid(), first == os.getpid(), os.getsid(0) == first)
"""


def test_a_host_begins_a_session_once() -> None:
    command = [sys.executable, "-c", PROGRAM]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout == "False True True\n"
