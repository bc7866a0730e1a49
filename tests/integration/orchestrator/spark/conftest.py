"""Spark for SQL, started once per module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from orchestrator.deploy.embedded.java import Java
from orchestrator.spark.hosts.session import SessionSettings, start_session, stop_session


@pytest.fixture(scope="module")
def sql_session(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark within one process: SQL needs no executors of its own."""
    session = start_session(
        SessionSettings(
            name="sql",
            work_dir=tmp_path_factory.mktemp("spark"),
            executors=1,
            master="local[2]",
            java=java,
            extra={"spark.sql.shuffle.partitions": "2"},
        )
    )
    yield session
    stop_session(session)
