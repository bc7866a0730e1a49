"""How far Spark's jobs have come, in rows."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark import SparkContext, StatusTracker

LOOK_S = 0.5
"""How often Spark is asked how many tasks are done."""

OnRows = Callable[[int, int], None]
"""Told how many rows are done, of how many."""


@contextmanager
def watched(context: SparkContext, rows: int, on_rows: OnRows) -> Generator[None]:
    """Tell, while Spark has jobs of this block, how many of so many rows are done.

    Spark tells of tasks, which have about as many rows each. Figures never fall, although Spark
    may find more tasks while it works.
    """
    group = uuid.uuid4().hex
    context.setJobGroup(group, "rows")
    tracker = context.statusTracker()
    ended = threading.Event()

    def look() -> None:
        most = 0
        while not ended.wait(LOOK_S):
            try:
                done, of = _tasks(tracker, group)
            except (Py4JError, OSError):
                # Spark has ended; whoever waits for the job is told so.
                return
            most = max(most, rows * done // max(of, 1))
            on_rows(most, rows)

    on_rows(0, rows)
    watcher = threading.Thread(target=look, name="rows", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
    on_rows(rows, rows)


def _tasks(tracker: StatusTracker, group: str) -> tuple[int, int]:
    """How many tasks of a group's jobs are done, and how many there are."""
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    numbers = {stage for job in jobs if job is not None for stage in job.stageIds}
    stages = [tracker.getStageInfo(number) for number in numbers]
    return (
        sum(each.numCompletedTasks for each in stages if each is not None),
        sum(each.numTasks for each in stages if each is not None),
    )
