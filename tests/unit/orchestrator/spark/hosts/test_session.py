"""The settings that hosts depend on."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.embedded.packages import source_root
from orchestrator.errors import InvalidInput
from orchestrator.spark.hosts.session import SessionSettings, session_secrets, spark_settings


def settings(master: str | None = None, **extra: str) -> dict[str, str]:
    return spark_settings(
        SessionSettings(
            name="aircraft", work_dir=Path("/work dir"), executors=6, master=master, extra=extra
        )
    )


def test_default_is_a_local_cluster_of_one_core_executors() -> None:
    assert settings()["spark.master"] == "local-cluster[6,1,512]"
    assert settings()["spark.executor.cores"] == settings()["spark.task.cpus"] == "1"


def test_local_cluster_keeps_to_the_loopback_interface_and_its_folder() -> None:
    assert settings()["spark.driver.host"] == settings()["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings()["spark.local.dir"] == "/work dir/scratch"
    assert settings()["spark.sql.warehouse.dir"] == "file:///work%20dir/warehouse"


def test_local_executors_find_the_packages_of_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/owners packages")
    assert settings()["spark.executorEnv.PYTHONPATH"].split(":") == [
        str(source_root()),
        "/owners packages",
    ]


def test_real_cluster_keeps_its_own_addresses_and_folders() -> None:
    remote = settings("spark://10.0.0.1:7077")
    assert remote["spark.master"] == "spark://10.0.0.1:7077"
    assert not {"spark.driver.host", "spark.local.dir", "spark.executorEnv.PYTHONPATH"} & set(
        remote
    )


def test_a_cluster_takes_no_more_executors_than_it_has_nodes() -> None:
    chosen = settings("spark://10.0.0.1:7077")
    assert chosen["spark.cores.max"] == chosen["spark.executor.instances"]
    assert chosen["spark.executor.cores"] == "1"


@pytest.mark.parametrize("master", [None, "spark://10.0.0.1:7077", "yarn"])
def test_loss_of_an_executor_fails_its_task_at_once_and_nothing_gives_up(
    master: str | None,
) -> None:
    chosen = settings(master)
    assert chosen["spark.task.maxFailures"] == "1"
    assert chosen["spark.deploy.maxExecutorRetries"] == "-1"
    assert chosen["spark.speculation"] == chosen["spark.dynamicAllocation.enabled"] == "false"


def test_extra_settings_win() -> None:
    assert settings(**{"spark.ui.enabled": "true"})["spark.ui.enabled"] == "true"


def test_extra_java_options_leave_temporary_files_in_the_sessions_folder() -> None:
    options = "spark.executor.extraJavaOptions"
    chosen = settings(**{options: "-Xss1m"})
    assert chosen[options] == "-Xss1m"
    for process in ("driver", "executor"):
        name = f"spark.{process}.defaultJavaOptions"
        assert chosen[name] == '"-Djava.io.tmpdir=/work dir/scratch"'


def test_a_driver_of_a_standalone_cluster_reads_sparks_secret_from_a_file(
    tmp_path: Path,
) -> None:
    file = tmp_path / "secret"

    def told(master: str, **extra: str) -> dict[str, str]:
        return session_secrets(
            SessionSettings(name="", work_dir=tmp_path, executors=1, master=master, extra=extra)
        )

    named = {"spark.authenticate.secret.file": str(file)}
    with pytest.raises(InvalidInput, match="cannot be read"):
        told("spark://one:7077", **named)
    file.write_text("known\n")
    assert told("spark://one:7077", **named) == {"spark.authenticate.secret": "a25vd24K"}
    assert told("spark://one:7077") == told("k8s://one", **named) == {}
