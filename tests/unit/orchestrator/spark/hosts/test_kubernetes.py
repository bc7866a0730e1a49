"""Spark's settings where executors are pods."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.deploy.config import ProcessConfig
from orchestrator.deploy.host_pool import driver_pod
from orchestrator.errors import InvalidInput
from orchestrator.manifest import PlaceManifest
from orchestrator.records import NodeKind
from orchestrator.spark.hosts.kubernetes import (
    DriverPod,
    kubernetes_settings,
    label_value,
    own_namespace,
)
from orchestrator.spark.hosts.session import SessionSettings, spark_settings

POD = DriverPod(
    name="first-7d9-x",
    namespace="streams",
    address="10.0.0.7",
    secret_file=Path("/run/vivace/secret"),
    cluster="aircraft",
    application="application-1",
    zookeeper="zk:2181",
)


def settings(pod: DriverPod = POD, **extra: str) -> dict[str, str]:
    return spark_settings(
        SessionSettings(
            name="aircraft",
            work_dir=Path("/work"),
            executors=3,
            master="k8s://https://kubernetes.default.svc",
            of_master=kubernetes_settings(pod),
            extra=extra,
        )
    )


def test_executors_are_pods_that_go_with_the_drivers() -> None:
    chosen = settings()
    assert chosen["spark.kubernetes.driver.pod.name"] == "first-7d9-x"
    assert chosen["spark.kubernetes.namespace"] == "streams"
    assert chosen["spark.kubernetes.allocation.pods.allocator"] == "direct"
    assert chosen["spark.executor.instances"] == "3"
    nameless = DriverPod(
        name="", namespace="n", address="a", secret_file=Path("s"), cluster="c", application="",
        zookeeper="zk:2181",
    )  # fmt: skip
    assert "spark.kubernetes.driver.pod.name" not in settings(nameless)


def test_they_have_labels_by_which_a_later_life_finds_them() -> None:
    chosen = settings()
    found = {
        name.removeprefix("spark.kubernetes.executor.label."): value
        for name, value in chosen.items()
        if ".label." in name
    }
    assert found.keys() == {"vivace-cluster", "vivace-application", "vivace-store"}
    assert found.items() <= POD.labels.items()
    assert found["vivace-cluster"] == "aircraft"
    assert replace(POD, zookeeper="other:2181").labels != POD.labels
    assert POD.labels["spark-role"] == "executor"


def test_names_of_clusters_that_are_too_long_for_labels_are_told_apart() -> None:
    values = {label_value("x" * 127 + last) for last in "ab"}
    assert len(values) == 2
    assert {*map(len, values)} == {63}
    assert label_value("x" * 63) == "x" * 63


def test_nothing_of_spark_takes_the_place_of_what_comes_before_a_pods_end() -> None:
    assert settings()["spark.decommission.enabled"] == "false"


def test_spark_asks_for_pods_that_no_event_told_of_sooner_than_by_itself() -> None:
    assert settings()["spark.kubernetes.executor.apiPollingInterval"] == "5s"
    assert settings()["spark.kubernetes.driver.connectionTimeout"] == "30000"
    assert settings()["spark.kubernetes.driver.requestTimeout"] == "30000"


def test_spark_never_gives_up_replacing_executors() -> None:
    assert int(settings()["spark.executor.maxNumFailures"]) > 10**9


def test_the_secret_is_in_a_file_of_each_pod_and_in_no_setting() -> None:
    chosen = settings()
    assert chosen["spark.authenticate"] == "true"
    assert chosen["spark.authenticate.secret.file"] == "/run/vivace/secret"
    assert chosen["spark.executorEnv.VIVACE_SECRET_FILE"] == "/run/vivace/secret"
    assert "spark.authenticate.secret" not in chosen


def test_ports_are_those_that_a_network_policy_can_name() -> None:
    chosen = settings()
    assert chosen["spark.driver.host"] == chosen["spark.driver.bindAddress"] == "10.0.0.7"
    assert (chosen["spark.driver.port"], chosen["spark.blockManager.port"]) == ("7078", "7079")


def test_extra_settings_win_over_those_of_the_master() -> None:
    extra = {"spark.kubernetes.namespace": "other", "spark.driver.port": "7000"}
    assert extra.items() <= settings(POD, **extra).items()


def config(secret_file: Path | None, bind: str = "0.0.0.0", **settings: str) -> ProcessConfig:
    return ProcessConfig(
        file="vivace.yaml", cluster="aircraft", zookeeper="127.0.0.1:2181", secret="hidden",
        secret_file=secret_file, spark_master="k8s://https://10.0.0.1", bind=bind,
        spark_settings=settings,
    )  # fmt: skip


def test_a_secret_that_is_in_no_file_is_refused() -> None:
    with pytest.raises(InvalidInput, match="secretFile: is missing"):
        driver_pod(config(None), "east")


def test_hosts_that_only_their_own_pods_would_reach_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"bind: '127\.0\.0\.1' is not the address of each"):
        driver_pod(config(Path("/s"), "127.0.0.1"), "east")


def test_a_namespace_of_the_users_is_where_pods_are_made_and_looked_for() -> None:
    found = driver_pod(config(Path("/s"), **{"spark.kubernetes.namespace": "other"}), "east", {})
    assert (found.namespace, found.name, found.application) == ("other", "", "east")


def test_a_host_pool_outside_a_pod_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="needs the token of a pod's service account"):
        own_namespace(tmp_path / "nothing")
    (tmp_path / "namespace").write_text("streams\n")
    assert own_namespace(tmp_path) == "streams"


def test_executors_on_kubernetes_are_sent_no_secret() -> None:
    place = PlaceManifest(name="a", region="r", file="cluster.yaml")
    assert config(Path("/s")).host_spec(place, NodeKind.EXECUTOR).secret == ""
    assert config(Path("/s")).host_spec(place, NodeKind.SITE).secret == "hidden"
