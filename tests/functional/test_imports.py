"""What commands import: whoever only asks for help does not wait for libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HEAVY = {"kazoo", "matplotlib", "numba", "prometheus_client", "pyspark", "scipy", "sklearn", "zmq"}

PROGRAM = """\
import sys
from orchestrator.cli.main import run
run(sys.argv[1:])
print(*{name.partition(".")[0] for name in sys.modules}, file=sys.stderr)
"""


def imported(home: Path, *arguments: str) -> set[str]:
    """Packages that a command has imported when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "VIVACE_HOME": str(home)},
        check=True,
    )
    return set(done.stderr.splitlines()[-1].split())


def test_help_imports_neither_numpy_nor_the_product(tmp_path: Path) -> None:
    assert not imported(tmp_path, "--help") & {*HEAVY, "numpy", "pyarrow", "lark", "streams"}


def test_validate_imports_neither_a_solver_nor_a_client(tmp_path: Path) -> None:
    found = imported(tmp_path, "validate", "-f", "examples/aircraft")
    assert "streams" in found
    assert not found & HEAVY


def test_status_without_a_cluster_imports_no_solver(tmp_path: Path) -> None:
    assert not imported(tmp_path, "status") & (HEAVY - {"kazoo"})
