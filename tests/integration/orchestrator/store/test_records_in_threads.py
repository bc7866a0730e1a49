"""Records that several threads of a process read for the first time at the same moment.

A host, a coordinator and a site have a thread each for the store, and others beside it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]

READERS = """
import sys
import threading

from orchestrator.store.protocol import ASSIGNMENTS, decode, encode
from tests.driven_host import assigned, assignment_of

sys.setswitchinterval(1e-6)
record = assignment_of(assigned("primary", peer_replica="two"))
data, start, found = encode(record), threading.Barrier(8), []


def read():
    start.wait()
    found.append(decode("assignments/one", data, ASSIGNMENTS.type, 0).record)


threads = [threading.Thread(target=read) for _ in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
assert found == [record] * 8
"""


@pytest.mark.slow
def test_threads_that_read_records_of_a_type_at_the_same_moment_end_no_process() -> None:
    for _ in range(4):
        done = subprocess.run(
            [sys.executable, "-c", READERS], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
