"""The scripts of `vivace completion`, in the shells that they are for."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from orchestrator.cli.main import run
from tests.conftest import PATIENCE_S

pytestmark = pytest.mark.slow

CASES = {
    "stat": "status",
    "drill re": "report",
    "get fr": "fragments",
    "status --js": "--json",
    "switchover prox": "proximity.alerts",
    "drill run --sim": "--simulate",
    "apply -f exam": "examples/",
}
"""What is typed → what its last word becomes."""

NAMES = "proximity.alerts"
"""What `vivace get` prints in these shells."""


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"there is no {shell}")


def script(shell: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    (folder / "examples").mkdir()
    assert run(["completion", shell]) == 0
    file = folder / f"vivace.{shell}"
    file.write_text(capsys.readouterr().out)
    return file


@needs("fish")
def test_fish_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = f"source {script('fish', tmp_path, capsys)}; function vivace; echo {NAMES}; end; "
    for words, completed in CASES.items():
        shown = subprocess.run(
            ["fish", "--no-config", "-c", f"{told} complete -C 'vivace {words}'"],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
            env={**os.environ, "HOME": str(tmp_path)},
        )
        assert shown.stdout.strip() == completed, shown.stderr


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["bash", "--norc", "--noprofile", "-i"], marks=needs("bash"), id="bash"),
        pytest.param(["zsh", "-f", "-i"], marks=needs("zsh"), id="zsh"),
    ],
)
def test_what_is_typed_is_completed(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = script(command[0], tmp_path, capsys)
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        own = {**os.environ, "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path), "TERM": "dumb"}
        os.execvpe(command[0], command, own)
    try:
        begin = f"PS1='re''ady> '; source {file}; vivace() {{ echo {NAMES}; }}\n"
        os.write(terminal, begin.encode())
        read(terminal, "ready> ")
        for words, completed in CASES.items():
            before, _, _ = words.rpartition(" ")
            os.write(terminal, f"vivace {words}\t".encode())
            read(terminal, " ".join(filter(None, ["vivace", before, completed])))
            # Ctrl-U: away with the line.
            os.write(terminal, b"\x15")
    finally:
        os.close(terminal)
        os.waitpid(child, 0)


def read(terminal: int, wanted: str) -> None:
    """Wait until a terminal shows something."""
    shown, deadline = "", time.monotonic() + PATIENCE_S
    while wanted not in shown:
        assert time.monotonic() < deadline, shown
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 4096).decode(errors="replace")
