"""A process's clock and its machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from orchestrator import clock

SAID = "from orchestrator import clock; print(clock.anchor_us(), clock.machine(), sep=';')"


def another(offset_file: Path | None = None) -> tuple[int, str]:
    """Anchor and machine of a process that starts now."""
    environment = dict(os.environ)
    environment.pop(clock.OFFSET_FILE, None)
    if offset_file is not None:
        environment[clock.OFFSET_FILE] = str(offset_file)
    said = subprocess.check_output([sys.executable, "-c", SAID], env=environment, text=True)
    anchor_us, machine = said.strip().split(";")
    return int(anchor_us), machine


def test_clock_is_the_monotonic_one_ahead_by_the_anchor() -> None:
    before_us = clock.monotonic_us()
    now_us = clock.now_us()
    assert before_us <= now_us - clock.anchor_us() <= clock.monotonic_us()


def test_processes_of_one_machine_know_that_they_are() -> None:
    _, machine = another()
    assert machine == clock.machine()


def test_a_process_takes_the_wall_clock_to_be_ahead_by_what_the_file_says(tmp_path: Path) -> None:
    file = tmp_path / "clock"
    file.write_text("0")
    anchor_us, machine = another(file)
    file.write_text("-3600 elsewhere")
    set_back_us, other = another(file)
    assert machine == clock.machine()
    assert other == "elsewhere"
    assert round((anchor_us - set_back_us) / 1e6) == 3600
