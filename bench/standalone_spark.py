"""Spark's standalone cluster on this machine: a master and workers, as PySpark brings them."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from orchestrator.embedded.child_process import ChildProcess
from orchestrator.embedded.java import Java
from orchestrator.embedded.packages import pyspark_folder, source_root
from orchestrator.embedded.ports import LOOPBACK, free_port
from orchestrator.errors import Unreachable

REGISTERED = "Successfully registered with master"
"""A line of a worker's log."""

PATIENCE_S = 300.0
"""Time for all workers to register, on a machine that is busy."""

LOOK_S = 0.1


@contextmanager
def standalone_spark(
    folder: Path, java: Java, *, workers: int = 2, memory_mb: int = 1024
) -> Generator[str]:
    """A master's URL for the time of a block; each of its workers has one core.

    Parameters
    ----------
    folder
        For logs and the workers' files.
    memory_mb
        Of each worker.

    Raises
    ------
    Unreachable
        A worker does not register.
    """
    port = free_port()
    url = f"spark://{LOOPBACK}:{port}"
    own = {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(pyspark_folder()),
        "SPARK_LOCAL_IP": LOOPBACK,
        # Executors have a worker's environment, and import Vivace from here.
        "PYTHONPATH": str(source_root()),
    }
    program = str(pyspark_folder() / "bin" / "spark-class")

    def start(kind: str, log: Path, *options: str) -> ChildProcess:
        place = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
        named = (program, place, "--host", LOOPBACK, "--webui-port", "0", *options)
        return ChildProcess(named, log=log, env={**os.environ, **own})

    with ExitStack() as running:
        master = start("Master", folder / "master.log", "--port", str(port))
        running.callback(master.stop, PATIENCE_S)
        logs = [folder / f"worker-{number}.log" for number in range(workers)]
        for log in logs:
            room = ("--cores", "1", "--memory", f"{memory_mb}m")
            worker = start("Worker", log, *room, "--work-dir", str(log.with_suffix("")), url)
            running.callback(worker.stop, PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        while not all(REGISTERED in log.read_text("utf-8") for log in logs):
            if time.monotonic() > deadline:
                raise Unreachable("Spark", url, "gets no workers", f"Logs are in {folder}.")
            time.sleep(LOOK_S)
        yield url
