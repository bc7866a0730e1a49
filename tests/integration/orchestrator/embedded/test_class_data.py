"""Processes take their classes from the file, or do without it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from orchestrator.embedded.class_data import class_data, class_data_options, class_path
from orchestrator.embedded.java import SMALL_JVM, Java
from orchestrator.spark.hosts.class_data import keeps_class_data

MAIN = "org.apache.zookeeper.Version"


def sources(java: Java, folder: Path, path: str) -> tuple[str, str]:
    """Where a process had its class from, and what it wrote."""
    log = folder / "loaded"
    command = [str(java.executable), *SMALL_JVM, *class_data_options(java)]
    command += [f"-Xlog:class+load:file={log}:none", "-cp", path, MAIN]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    (line,) = [each for each in log.read_text().splitlines() if each.startswith(f"{MAIN} ")]
    return line.partition(" source: ")[2], done.stdout + done.stderr


@pytest.fixture
def kept(java: Java) -> Path:
    if not keeps_class_data(java):
        pytest.skip(f"{java.executable} keeps no class data")
    return class_data(java)


def test_processes_have_their_classes_from_the_file(java: Java, kept: Path, tmp_path: Path) -> None:
    assert kept.is_file(), "`make setup` makes it"
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "log4j2.properties").touch()
    path = os.pathsep.join([class_path(), str(tmp_path / "conf")])
    source, said = sources(java, tmp_path, path)
    assert source.startswith("shared objects file (top)")
    assert "built on" in said


def test_a_file_that_does_not_fit_is_passed_over_in_silence(
    java: Java, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = os.pathsep.join([str(tmp_path), class_path()])
    source, said = sources(java, tmp_path, other)
    assert source.startswith("file:")
    assert "built on" in said
    assert len(said.splitlines()) == 1
    damaged = tmp_path / kept.name
    damaged.write_bytes(b"nonsense")

    def other_file(_: Java) -> Path:
        return damaged

    monkeypatch.setattr("orchestrator.embedded.class_data.class_data", other_file)
    assert str(damaged) in class_data_options(java)[0]
    assert sources(java, tmp_path, class_path()) == (source, said)
