"""A host is told by a file that it is to leave, and the program that tells it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from orchestrator.embedded.packages import source_root
from orchestrator.host.shell.leave_order import (
    DEFAULT_WITHIN_S,
    LEAVE,
    LEFT,
    PID,
    RUN_VARIABLE,
    LeaveOrder,
)

PROGRAM = source_root() / "orchestrator" / "deploy" / "vivace-container"


def order(folder: Path, wall_s: float = 0.0) -> LeaveOrder:
    return LeaveOrder(folder, now_s=lambda: 0.0, wall_s=lambda: wall_s)


def tell(folder: Path, text: str) -> None:
    (folder / LEAVE).write_text(text)
    os.utime(folder / LEAVE, (1000.0, 1000.0))


def test_nobody_tells_a_host_without_a_folder() -> None:
    without = LeaveOrder.of_environment({})
    assert without.within_s() is None
    without.done(["q.f"])


@pytest.mark.parametrize(
    ("text", "within_s"),
    [("75\n", 65.0), ("75s", 65.0), ("5", 0.0), ("soon", DEFAULT_WITHIN_S - 10), ("", 20.0)],
)
def test_time_counts_from_when_it_was_told(tmp_path: Path, text: str, within_s: float) -> None:
    asked = order(tmp_path / "run", wall_s=1010.0)
    tell(tmp_path / "run", text)
    assert asked.within_s() == within_s


def test_it_looks_now_and_then(tmp_path: Path) -> None:
    now_s = 0.0
    asked = LeaveOrder(tmp_path, now_s=lambda: now_s, wall_s=lambda: 1000.0)
    assert asked.within_s() is None
    tell(tmp_path, "10")
    assert asked.within_s() is None
    now_s = 1.0
    assert asked.within_s() == 10.0


def test_what_a_former_host_left_is_forgotten_and_the_order_is_not(tmp_path: Path) -> None:
    tell(tmp_path, "10")
    (tmp_path / LEFT).write_text("")
    again = order(tmp_path, wall_s=1001.0)
    assert not (tmp_path / LEFT).exists()
    assert again.within_s() == 9.0
    again.done(["q.f", "desk"])
    assert (tmp_path / LEFT).read_text() == "q.f\ndesk\n"


def leave(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [PROGRAM, "leave", *words],
        env={"PATH": os.environ["PATH"], RUN_VARIABLE: str(folder)},
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_program_waits_until_the_host_has_left(tmp_path: Path) -> None:
    asked = LeaveOrder(tmp_path)
    waiting = leave(tmp_path, "--within", "60s")
    while (within_s := asked.within_s()) is None:
        assert waiting.poll() is None
    assert 50 < within_s <= 60
    asked.done([])
    assert waiting.wait(20) == 0


def test_the_program_waits_for_no_host_that_has_ended_or_never_was(tmp_path: Path) -> None:
    assert leave(tmp_path, "--within", "60").wait(20) == 0
    assert not (tmp_path / LEAVE).exists()
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / PID).write_text(f"{ended.pid}\n")
    assert leave(tmp_path, "--within", "60").wait(20) == 0


def test_the_program_gives_up_when_it_is_time(tmp_path: Path) -> None:
    LeaveOrder(tmp_path)
    assert leave(tmp_path, "--within", "0").wait(20) == 1


@pytest.mark.parametrize("words", [(), ("--within",), ("--within", "soon"), ("--within", "-1")])
def test_the_program_refuses_other_words(tmp_path: Path, words: tuple[str, ...]) -> None:
    refused = leave(tmp_path, *words)
    assert refused.wait(20) == 2
    assert refused.stderr is not None
    assert "within" in refused.stderr.read()
