"""Nobody but a session's own processes can use its Spark master."""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from orchestrator.embedded.java import Java
from orchestrator.spark.hosts.session import (
    SessionSettings,
    session_secrets,
    start_session,
    stop_session,
)
from tests.conftest import WaitUntil

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("no_session")]

SECRETS = tuple(session_secrets(SessionSettings(name="", work_dir=Path(), executors=1)))


def settings(java: Java, work: Path, **extra: str) -> SessionSettings:
    return SessionSettings(
        name="s",
        work_dir=work,
        executors=1,
        java=java,
        extra={name.replace("_", "."): value for name, value in extra.items()},
    )


def java_processes() -> list[psutil.Process]:
    below = psutil.Process().children(recursive=True)
    return [each for each in below if each.name() == "java"]


def ports() -> list[int]:
    """Ports on which the driver listens, the master's among them."""
    driver = next(each for each in java_processes() if each.ppid() == os.getpid())
    connections = driver.net_connections()
    return [each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN]


def at_each(probe: Callable[[int], Any]) -> list[Any]:
    """What a probe finds at each port; all are probed at once, since most ports never answer."""
    found = ports()
    with ThreadPoolExecutor(len(found)) as threads:
        return list(threads.map(probe, found))


def finds_master(jvm: Any, port: int) -> bool:
    """Whether a program that knows no secret can talk to a Spark master at a port."""
    conf = jvm.org.apache.spark.SparkConf(False)
    for name in ("rpc.lookupTimeout", "rpc.askTimeout", "network.timeout"):
        conf.set(f"spark.{name}", "10s")
    conf.set("spark.executor.heartbeatInterval", "1s")
    manager = jvm.org.apache.spark.SecurityManager
    defaults = [getattr(manager, f"$lessinit$greater$default${n}")() for n in (2, 3)]
    environment = jvm.org.apache.spark.rpc.RpcEnv.create(
        "stranger", "127.0.0.1", 0, conf, manager(conf, *defaults), True
    )
    try:
        address = jvm.org.apache.spark.rpc.RpcAddress("127.0.0.1", port)
        environment.setupEndpointRef(address, "Master")
    except Py4JJavaError:
        return False
    finally:
        environment.shutdown()
    return True


def page(port: int) -> int | None:
    """The status of the web page at a port; None if there is none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, http.client.HTTPException):
        return None


def pages(wait_until: WaitUntil, looked_for: set[int]) -> set[int | None]:
    """What the pages answer, one status of those looked for among it, however busy the machine."""
    found: set[int | None] = set()

    def answered() -> bool:
        found.update(at_each(page))
        return bool(found & looked_for)

    wait_until(answered)
    return found


def test_only_without_secrets_a_stranger_reaches_a_master_or_a_page(
    java: Java, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """The first session shows that the probes would find an open master."""
    unsafe = {"spark_authenticate": "false", "spark_network_crypto_enabled": "false"}
    session = start_session(settings(java, tmp_path / "open", **unsafe, spark_ui_filters=""))
    try:
        jvm = vars(SparkContext)["_jvm"]
        assert any(at_each(partial(finds_master, jvm)))
        pages(wait_until, {200})
    finally:
        stop_session(session)
    work = tmp_path / "safe"
    session = start_session(settings(java, work))
    try:
        assert session.range(10).count() == 10
        jvm = vars(SparkContext)["_jvm"]
        assert not any(at_each(partial(finds_master, jvm)))
        refused = {403, 500}
        assert pages(wait_until, refused) <= {None, *refused}
        secrets_are_neither_in_arguments_nor_in_files(session, work)
    finally:
        stop_session(session)


def secrets_are_neither_in_arguments_nor_in_files(session: SparkSession, work: Path) -> None:
    known = session.sparkContext.getConf()
    values = [known.get(name) for name in SECRETS]
    assert all(values)
    for process in java_processes():
        assert not [v for v in values if v and v in " ".join(process.cmdline())]
    for file in work.rglob("*"):
        if file.is_file() and not file.is_symlink():
            content = file.read_bytes()
            assert not [v for v in values if v and v.encode() in content], file
