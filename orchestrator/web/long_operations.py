"""Operations that take longer than a request: a record each, which any process of the API can read.

Whoever asks gets the name of the record, and follows it. One thread writes the records of this
process: progress at most once a second, and the end as soon as the store takes it. A record names
the process (`/webs/<name>`, ephemeral). Once that process is gone, the others tell that the
operation was abandoned, and forget it after a while, as they do with those that have ended.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from orchestrator.errors import Cancelled, Refused, Unreachable, error_report
from orchestrator.progress import Progress
from orchestrator.records import OperationRecord, OperationState, WebRecord
from orchestrator.records.versions import this_version
from orchestrator.results.operations import OperationStatus
from orchestrator.store.ephemeral import EphemeralRecord
from orchestrator.store.protocol import (
    OPERATIONS,
    WEBS,
    RecordMissing,
    Store,
    StoreError,
    StoreUnavailable,
    VersionConflict,
)
from orchestrator.web.failures import Busy, NotFound

KEPT_US = 600_000_000
"""How long one that has ended, or whose process has, can be followed."""

WRITE_EVERY_S = 1.0

SWEEP_EVERY = 30
"""Rounds of writing between two looks for records that nobody needs any more."""

MOST_RUNNING = 16
"""Each has a thread."""

MOST_RESULT_BYTES = 900_000
"""The store takes no more than 1 MiB."""

_log = logging.getLogger("vivace.web")


@dataclass(slots=True)
class _Job:
    """An operation that this process carries out.

    Attributes
    ----------
    wanted
        What its record is to say; replaced as a whole.
    written, version
        What it says, and its version.
    cancelled_by
        Who wants it to end; empty: nobody does.
    """

    name: str
    wanted: OperationRecord
    written: OperationRecord
    version: int = 0
    cancelled_by: str = ""


class LongOperations:
    """See the module.

    Parameters
    ----------
    address
        Where this process serves.
    now_us
        The cluster's clock.
    """

    def __init__(self, store: Store, address: str, now_us: Callable[[], int]) -> None:
        self._store = store
        self._now_us = now_us
        self.web = f"web-{secrets.token_hex(6)}"
        self._record = WebRecord(address=address, pid=os.getpid(), versions=this_version())
        self._claim = EphemeralRecord(store, WEBS.key(self.web))
        self._claimed_session = 0
        self._jobs: dict[str, _Job] = {}
        self._beginning = threading.Lock()
        self._threads = ThreadPoolExecutor(MOST_RUNNING, thread_name_prefix="operation")
        self._wake, self._ending = threading.Event(), False
        self._writer = threading.Thread(target=self._write_on, name="operations", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._writer.start()

    def stop(self) -> None:
        """Leave what is under way; others will tell that it was abandoned."""
        self._ending = True
        self._wake.set()
        self._writer.join(WRITE_EVERY_S)
        self._threads.shutdown(wait=False, cancel_futures=True)
        with suppress(StoreError):
            self._claim.withdraw()

    def begin(self, operation: str, by: str, carry: Callable[[Progress], object]) -> str:
        """Have an operation carried out; the name of its record.

        Raises
        ------
        Busy
            Too many are under way.
        StoreUnavailable
            Nobody could follow it.
        """
        name = f"{operation}-{secrets.token_hex(6)}"
        record = OperationRecord(operation=operation, web=self.web, by=by, begun_us=self._now_us())
        job = _Job(name, record, record)
        with self._beginning:
            if len(self._jobs) >= MOST_RUNNING:
                raise Busy(f"{MOST_RUNNING} operations are under way", retry_s=5)
            self._jobs[name] = job
        try:
            self._publish()
            self._store.create(OPERATIONS.key(name), record)
        except BaseException:
            del self._jobs[name]
            raise
        self._threads.submit(self._carry, job, carry)
        return name

    def status(self, name: str) -> OperationStatus:
        """An operation of this process or another one.

        Raises
        ------
        NotFound
            There is none of that name, or it ended some time ago.
        """
        found = None
        with suppress(ValueError):
            found = self._store.get(OPERATIONS.key(name))
        if found is None:
            raise NotFound("operation", name, "is unknown, or ended more than 10 minutes ago")
        record, state, error = found.record, found.record.state.value, found.record.error
        if record.state is OperationState.RUNNING and self._is_abandoned(name, record):
            state, error = "abandoned", msgspec.Raw(msgspec.json.encode(_abandoned(name)))
        return msgspec.convert(
            {
                **msgspec.structs.asdict(record),
                "name": name,
                "state": state,
                "error": error,
            },
            OperationStatus,
        )

    def cancel(self, name: str, by: str) -> None:
        """Have an operation that is under way end at its next step, whoever carries it out.

        Raises
        ------
        NotFound
            There is none of that name, or it ended some time ago.
        """
        while self.status(name).state == "running":
            key = OPERATIONS.key(name)
            if (found := self._store.get(key)) is None or found.record.cancelled_by:
                return
            with suppress(VersionConflict, RecordMissing):
                cancelled = msgspec.structs.replace(found.record, cancelled_by=by)
                self._store.update(key, cancelled, found.version)

    def _is_abandoned(self, name: str, record: OperationRecord) -> bool:
        return name not in self._jobs and self._store.get(WEBS.key(record.web)) is None

    def _carry(self, job: _Job, carry: Callable[[Progress], object]) -> None:
        def on_progress(step: str, detail: str) -> None:
            if job.cancelled_by:
                raise Cancelled(job.name, job.cancelled_by)
            job.wanted = msgspec.structs.replace(job.wanted, step=step, detail=detail)

        state, result, error = OperationState.DONE, b"null", b"null"
        try:
            result = msgspec.json.encode(carry(on_progress))
            if len(result) > MOST_RESULT_BYTES:
                raise _too_large(job.name, "result", len(result))
        except BaseException as raised:  # noqa: BLE001  It is told to whoever follows.
            state, result = OperationState.FAILED, b"null"
            error = _told(job.name, raised)
        job.wanted = msgspec.structs.replace(
            job.wanted,
            state=state,
            ended_us=self._now_us(),
            result=msgspec.Raw(result),
            error=msgspec.Raw(error),
        )
        self._wake.set()

    def _write_on(self) -> None:
        rounds = 0
        while not self._ending:
            self._wake.wait(WRITE_EVERY_S)
            self._wake.clear()
            try:
                self.write()
                rounds += 1
                if rounds % SWEEP_EVERY == 0:
                    self.sweep()
            except StoreUnavailable:
                continue
            # The thread must outlive whatever goes wrong with one record.
            except Exception:  # noqa: BLE001
                _log.exception("an operation's record could not be written")

    def write(self) -> None:
        """Have the store say what is so."""
        self._publish()
        for job in [*self._jobs.values()]:
            self._look_whether_cancelled(job)
            wanted = msgspec.structs.replace(job.wanted, cancelled_by=job.cancelled_by)
            try:
                if wanted != job.written:
                    job.version = self._store.update(OPERATIONS.key(job.name), wanted, job.version)
                    job.written = wanted
            except VersionConflict:
                # Its answer was lost, or somebody has cancelled it: the next round knows.
                continue
            except RecordMissing:
                del self._jobs[job.name]
                continue
            if wanted.state is not OperationState.RUNNING:
                del self._jobs[job.name]

    def _look_whether_cancelled(self, job: _Job) -> None:
        """Read what others have written of it; this process's own writes are read at once."""
        if (found := self._store.get(OPERATIONS.key(job.name))) is not None:
            job.written, job.version = found.record, found.version
            job.cancelled_by = found.record.cancelled_by

    def sweep(self) -> None:
        """Forget what ended some time ago."""
        before_us = self._now_us() - KEPT_US
        webs = self._store.list(WEBS).records
        for name, found in self._store.list(OPERATIONS).records.items():
            record = found.record
            ended_us = record.ended_us
            if ended_us is None and record.web not in webs and name not in self._jobs:
                ended_us = record.begun_us
            if ended_us is not None and ended_us < before_us:
                with suppress(RecordMissing, VersionConflict):
                    self._store.delete(OPERATIONS.key(name), found.version)

    def _publish(self) -> None:
        """Be there, also in a new session."""
        if self._store.session != self._claimed_session:
            session = self._store.session
            self._claim.publish(self._record)
            self._claimed_session = session


def _abandoned(name: str) -> dict[str, object]:
    """What is told of an operation whose process has ended."""
    error = Unreachable(
        f"Operation {name}",
        "the API",
        "was abandoned: the process that carried it out has ended",
        "The leader carries on what was consented to: the history says whether it did.",
    )
    return error_report(error).document["error"]


def _told(name: str, raised: BaseException) -> bytes:
    """An error as the record has it."""
    told = msgspec.json.encode(error_report(raised).document["error"], enc_hook=repr)
    if len(told) > MOST_RESULT_BYTES:
        return _told(name, _too_large(name, "error", len(told)))
    return told


def _too_large(name: str, field: str, size: int) -> Refused:
    problem = f"is {size:,} bytes, of which the store takes {MOST_RESULT_BYTES:,}"
    remedy = "Ask for less at once."
    if field == "result":
        remedy = f"It was carried out. {remedy}"
    return Refused(name, field, size, problem, remedy, {})
