"""Logs of processes: their last lines, or precisely where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.api.connection import Cluster
from orchestrator.api.process_logs import log_of
from orchestrator.errors import InvalidInput
from orchestrator.operations.parameters import LogsParameters
from tests.obedient_cluster import ObedientCluster
from tests.served_cluster import reach


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(reach(), ObedientCluster().store)


def asked(process: str, lines: int = 2) -> LogsParameters:
    return LogsParameters(process=process, lines=lines)


def test_the_last_lines_are_told_by_the_name_of_the_process(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "site-control-centre.log").write_text("one\ntwo\nthree\n")
    found = log_of(cluster, asked("control-centre"), tmp_path)
    assert found.lines == ("two", "three")
    assert found.file == str(tmp_path / "site-control-centre.log")
    assert log_of(cluster, asked("site-control-centre"), tmp_path).lines == found.lines


def test_a_log_that_is_elsewhere_is_said_to_be_there(cluster: Cluster, tmp_path: Path) -> None:
    for folder in (None, tmp_path):
        with pytest.raises(InvalidInput, match="standard error of process 1 on machine here"):
            log_of(cluster, asked("paris"), folder)


def test_no_other_file_is_read(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "secret.log").write_text("secret")
    for name in ("../secret", "secret", "/etc/passwd", "lyonn"):
        with pytest.raises(InvalidInput, match="is no process here"):
            log_of(cluster, asked(name), tmp_path / "logs")
