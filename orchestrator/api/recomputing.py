"""Outputs computed again in Spark, and compared: what `vivace verify` and `vivace try` share."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from foundation.arrays import IntArray
from orchestrator.api.verified_input import Unverifiable
from orchestrator.errors import Unreachable
from orchestrator.progress import Progress
from orchestrator.results.verification import EvaluatedAgain, OutputVerdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from orchestrator.spark.verify.verification import OutputCheck

HEAP_MB = 1536
"""Of the Spark application that recomputes."""


def compared_again(
    session: SparkSession,
    statements: Sequence[str],
    columns: Mapping[str, Mapping[str, str]],
    inputs: Mapping[str, pa.Table],
    rows: Mapping[str, pa.Table],
    *,
    begin_ms: int | None,
    until_ms: int,
    on_progress: Progress,
    late_spans_ms: Mapping[str, IntArray] | None = None,
) -> tuple[tuple[OutputVerdict, ...], dict[str, EvaluatedAgain]]:
    """Compute statements again, and compare outputs; also, which were not computed in SQL.

    Parameters
    ----------
    statements
        Producers before consumers.
    columns, inputs
        Stream from outside → its columns, and its tuples up to `until_ms` at least.
    rows
        Output → its rows.
    begin_ms, until_ms
        The timestamps that are compared; None: from the beginning.
    late_spans_ms
        Output → timestamps whose rows were dropped because they were late
        (`Delivered.late_spans_ms`).

    Raises
    ------
    Unverifiable
        A statement depends on an order that nobody knows.
    """
    # Importing Spark takes a second, which nobody else should wait for.
    from orchestrator.spark.verify import verification
    from orchestrator.spark.verify.recomputation import Unordered, recompute

    try:
        again = recompute(
            session, statements, columns, inputs, until_ms, telling(on_progress, "recomputing")
        )
    except Unordered as error:
        raise Unverifiable(
            f"{error}: write its results in SQL, and name it with `vivace verify --sql`"
        ) from None
    told = telling(on_progress, "comparing")
    verdicts = [
        verdict(
            verification.check(
                stream,
                again.frames[stream],
                verification.frame(again.session, table),
                begin_ms,
                until_ms,
                partial(told, stream),
                (late_spans_ms or {}).get(stream),
            )
        )
        for stream, table in rows.items()
    ]
    not_in_sql = {
        name: msgspec.convert(one, EvaluatedAgain, from_attributes=True)
        for name, one in again.not_in_sql.items()
    }
    return tuple(verdicts), not_in_sql


def telling(on_progress: Progress, step: str) -> Callable[[str, int, int], None]:
    """Tells of a step how many rows of something are done, and of how many."""
    return lambda what, done, of: on_progress(step, f"{what}: {done:,} of {of:,} rows")


@contextmanager
def spark_session(work: Path) -> Generator[SparkSession]:
    """A Spark application for the time of a block.

    Raises
    ------
    Unreachable
        It has ended before.
    """
    from orchestrator.spark.hosts.session import (
        SessionSettings,
        driver_status,
        start_session,
        stop_session,
    )

    session = start_session(
        SessionSettings(
            name="vivace-verify",
            work_dir=work,
            executors=1,
            driver_memory_mb=HEAP_MB,
            master="local[*]",
            # The cluster may run on this machine.
            yields=True,
        )
    )
    try:
        yield session
    except Exception as error:
        if (status := driver_status(session)) is None:
            raise
        raise Unreachable(
            "Spark",
            "this machine",
            f"has ended while it computed results again ({_exit(status)}): the verification is "
            "not done",
            "Its Java process was killed, or lacked memory: see to it that "
            f'{HEAP_MB} MB are free, or compare less, as with --last "2 min".',
        ) from error
    finally:
        stop_session(session)


def _exit(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def verdict(check: OutputCheck) -> OutputVerdict:
    """A comparison as a result."""
    return OutputVerdict(
        output=check.output,
        archived=check.delivered,
        recomputed=check.expected,
        missing=check.missing,
        unexpected=check.unexpected,
        first_missing=check.first_missing,
        first_unexpected=check.first_unexpected,
        late=check.late,
        late_recomputed=check.late_expected,
    )
