"""Spark for a bulk job: on this machine, or on whatever master is named."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from orchestrator.embedded.java import find_java
from orchestrator.embedded.spark_processes import executor_peak_mb
from orchestrator.errors import Unreachable
from orchestrator.progress import Progress
from orchestrator.spark.bulk.coordinates import SPARK_SETTINGS
from orchestrator.spark.hosts.session import SessionSettings, start_session, stop_session
from orchestrator.spark.spark_choice import SparkChoice

FIRST_EXECUTOR_S = 120.0
"""Time for the first executor to start, before it is said that none does."""

LOOK_S = 0.5


@contextmanager
def bulk_session(choice: SparkChoice, on_progress: Progress) -> Generator[SparkSession]:
    """A session for the time of a block.

    Raises
    ------
    Unreachable
        Spark does not start, gives no executor, or gives the job up.
    NoJava
        There is no fit Java runtime.
    """
    work = Path(tempfile.mkdtemp(prefix="vivace-bulk-"))
    on_progress("Spark", f"starting at {choice.master}")
    session = start_session(
        SessionSettings(
            name="vivace bulk",
            work_dir=work,
            executors=choice.executors,
            executor_memory_mb=choice.memory_mb,
            driver_memory_mb=choice.memory_mb,
            master=choice.master,
            java=find_java(work),
            extra={**SPARK_SETTINGS, **choice.settings},
        )
    )
    try:
        _wait_for_executors(session, choice, on_progress)
        yield session
    except (Py4JError, PySparkException) as error:
        raise Unreachable(
            "Spark",
            choice.master,
            f"gave the job up ({_reason(error)})",
            "Executors need the same Python with Vivace installed, and see the files under the "
            f"same paths. Spark's log is {work / 'spark.log'}.",
        ) from error
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    else:
        shutil.rmtree(work, ignore_errors=True)
    finally:
        stop_session(session)


def peak_mb(session: SparkSession) -> float:
    """Peak memory of the executor that took most, of those that respond, MB."""
    context = session.sparkContext
    tasks = 4 * context.defaultParallelism
    return max(context.range(tasks, numSlices=tasks).map(lambda _: executor_peak_mb()).collect())


def _wait_for_executors(session: SparkSession, choice: SparkChoice, on_progress: Progress) -> None:
    """Wait for the first executor: a job would wait for it for ever, and say nothing."""
    java_context: Any = vars(session.sparkContext)["_jsc"]
    began = time.monotonic()
    # The driver is one of them; on a local master it is all.
    least = 1 if choice.master.startswith("local") else 2
    while java_context.sc().getExecutorMemoryStatus().size() < least:
        waited_s = time.monotonic() - began
        if waited_s > FIRST_EXECUTOR_S:
            raise Unreachable(
                "Spark",
                choice.master,
                f"gives no executor within {FIRST_EXECUTOR_S:.0f} s",
                f"Each needs a free core and {choice.memory_mb} MB: start workers, or ask for "
                "less by --memory.",
            )
        on_progress("Spark", f"waiting for executors for {waited_s:.0f} s")
        time.sleep(LOOK_S)


def _reason(error: Exception) -> str:
    """The line that says most: of a Python traceback the last one, else the first one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if line.partition(":")[0].endswith(("Error", "Exception"))]
    own = [line for line in python if "." not in line.partition(":")[0]]
    return (own or python or lines or [type(error).__name__])[-1 if own else 0]
