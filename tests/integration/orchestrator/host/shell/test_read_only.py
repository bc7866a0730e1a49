"""Processes of an installation that they cannot write to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.embedded.packages import source_root

pytestmark = [pytest.mark.slow, pytest.mark.long]

PACKAGES = ("foundation", "streams", "topology", "ha", "orchestrator")

OTHER_USER = 12345

LOADS = """
import os
from orchestrator.host.shell.kernels import KernelLoader
from streams.kernels import kernels

kernels.want(loops=True)
loader = KernelLoader()
loader.attend()
loader.wait(300)
modules = (kernels.current(), kernels.loops())
found = [each.stats for one in modules for each in vars(one).values() if hasattr(each, "stats")]
print(kernels.current().__name__, sum(len(each.cache_misses) for each in found))
"""


def installed(folder: Path, *, compiled: bool) -> Path:
    """A copy of the packages, which only its owner may write to."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source_root() / package, folder / package, ignore=ignored)
    if compiled:
        done = python(folder, "-m", "orchestrator.host.shell.kernels", user=None)
        assert done.returncode == 0, done.stderr
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    return folder


def python(folder: Path, *words: str, user: int | None) -> subprocess.CompletedProcess[str]:
    """Run Python with the packages of a folder, and no home."""
    run = folder.with_name("run")
    run.mkdir(exist_ok=True)
    run.chmod(0o777)
    variables = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    command = [sys.executable, *words]
    if user is not None and os.getuid() == 0:
        # May read what root may, such as its own Python, and write nothing but what is open to all.
        read = "+dac_read_search"
        command = [
            *("setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"),
            *("--inh-caps", read, "--ambient-caps", read, *command),
        ]
    return subprocess.run(
        command,
        env={**variables, "PYTHONPATH": str(folder), "TMPDIR": str(run)},
        cwd=run,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def files(*folders: Path) -> set[Path]:
    """All that is in some folders."""
    return {each for folder in folders for each in [folder, *folder.rglob("*")]}


@pytest.mark.skipif(
    os.getuid() == 0 and shutil.which("setpriv") is None, reason="there is no setpriv"
)
@pytest.mark.parametrize("compiled", [True, False], ids=["made", "missing"])
def test_kernels_are_found_and_nothing_is_written(tmp_path: Path, compiled: bool) -> None:
    folder = installed(tmp_path / "installed", compiled=compiled)
    tmp_path.chmod(0o755)
    homes = [Path("~").expanduser() / ".cache" / "numba"]
    before = files(folder, *homes)
    done = python(folder, "-c", LOADS, user=OTHER_USER)
    assert done.returncode == 0, done.stderr
    name, misses = done.stdout.split()
    assert name == "streams.kernels.compiled"
    assert (int(misses) == 0) == compiled
    assert files(folder, *homes) == before
    assert files(tmp_path / "run") == {tmp_path / "run"}
