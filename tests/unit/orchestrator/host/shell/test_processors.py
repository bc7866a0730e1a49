"""Which hosts share processors, and how many there are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.host.shell.processors import own_processors


def machine_files(folder: Path, quota: str) -> tuple[Path, Path]:
    (folder / "boot").write_text("4e1c\n")
    (folder / "quota").write_text(quota)
    return folder / "boot", folder / "quota"


@pytest.mark.parametrize("quota", ["max 100000\n", "", "6400000 100000\n", "1 0"])
def test_hosts_of_one_kernel_share_its_processors(tmp_path: Path, quota: str) -> None:
    found = own_processors(*machine_files(tmp_path, quota))
    assert (found.shared, found.count) == ("4e1c", len(os.sched_getaffinity(0)))


def test_container_with_a_quota_is_a_machine_of_its_own(tmp_path: Path) -> None:
    found = own_processors(*machine_files(tmp_path, "50000 100000\n"))
    assert (found.shared, found.count) == (f"4e1c/{found.machine}", 0.5)


def test_without_the_kernels_files_the_name_tells_machines_apart(tmp_path: Path) -> None:
    found = own_processors(tmp_path / "none", tmp_path / "none")
    assert found.shared == found.machine
    assert found.count >= 1
