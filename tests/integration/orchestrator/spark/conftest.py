"""One Spark session for all tests of jobs and SQL, which starts once in most runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from orchestrator.embedded.java import Java
from orchestrator.spark.bulk.coordinates import SPARK_SETTINGS
from orchestrator.spark.hosts.session import SessionSettings, start_session, stop_session


class SharedSession:
    """A session that starts when a test needs it and ends when a test needs another."""

    def __init__(self, java: Java, work_dir: Path) -> None:
        self._settings = SessionSettings(
            name="jobs",
            work_dir=work_dir,
            executors=2,
            java=java,
            extra={
                **SPARK_SETTINGS,
                "spark.sql.shuffle.partitions": "2",
                # Making code for each query pays off with more rows than tests have.
                "spark.sql.codegen.wholeStage": "false",
            },
        )
        self._session: SparkSession | None = None

    def start(self) -> SparkSession:
        """The session, started if it does not run."""
        if self._session is None:
            self._session = start_session(self._settings)
        return self._session

    def end(self) -> None:
        """End the session, if it runs."""
        if self._session is not None:
            stop_session(self._session)
            self._session = None


@pytest.fixture(scope="session")
def shared_session(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedSession]:
    """Not for tests: they ask for `session`, or for `no_session`."""
    shared = SharedSession(java, tmp_path_factory.mktemp("spark"))
    yield shared
    shared.end()


@pytest.fixture(scope="module")
def session(shared_session: SharedSession) -> SparkSession:
    """Spark with two executors, for jobs that leave nothing behind in it."""
    return shared_session.start()


@pytest.fixture(scope="module")
def no_session(shared_session: SharedSession) -> None:
    """This process runs no Spark: the test starts its own, of which there can be one."""
    shared_session.end()
