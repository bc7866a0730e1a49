"""The line of Spark's failure messages that names the cause."""

from __future__ import annotations

import pytest

from orchestrator.spark.hosts.pool import gist

lost = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed \
1 times, most recent failure: Lost task 0.0 in stage 1.0 (TID 1) (127.0.0.1 executor 0): \
ExecutorLostFailure (executor 0 exited caused by one of the running tasks) Reason: Command exited \
with code 137
Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.$anonfun$abortStage$3(DAGScheduler.scala:4568)
"""

crashed = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 2.0 failed \
1 times, most recent failure: Lost task 0.0 in stage 2.0 (TID 2) (127.0.0.1 executor 1): \
org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.applyOrElse(PythonRunner.scala:1)
"""

raised = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed \
1 times, most recent failure: Lost task 0.0 in stage 0.0 (TID 0) (127.0.0.1 executor 1): \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/worker.py", line 1, in main
    process()
  File "/x/host.py", line 2, in run
    raise ValueError("no such node")
ValueError: no such node

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handle(PythonRunner.scala:1)
"""


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            lost,
            "ExecutorLostFailure (executor 0 exited caused by one of the running tasks) "
            "Reason: Command exited with code 137",
        ),
        (
            crashed,
            "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).",
        ),
        (raised, "ValueError: no such node"),
        ("[Errno 111] Connection refused", "[Errno 111] Connection refused"),
        ("", ""),
    ],
)
def test_gist_says_what_happened(message: str, cause: str) -> None:
    assert gist(message) == cause
