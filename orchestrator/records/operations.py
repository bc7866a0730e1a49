"""Long operations that processes of the HTTP API carry out, these processes, and their tokens."""

from __future__ import annotations

from enum import Enum
from typing import Literal

import msgspec

from orchestrator.records.base import Record
from orchestrator.records.versions import FIRST, Versions

NOTHING = msgspec.Raw(b"null")


class OperationState(Enum):
    """How far an operation is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class OperationRecord(Record, frozen=True, kw_only=True):
    """`/operations/<name>`: a long operation, kept for some minutes after its end.

    Attributes
    ----------
    web
        The process that carries it out (`/webs/<web>`); once that is gone, nobody does.
    by
        Who asked: the token's id, and the address.
    begun_us, ended_us
        Cluster clock, µs.
    step, detail
        What was under way last.
    cancelled_by
        Who wants it to end; empty: nobody does.
    result, error
        Of one that is done, and of one that has failed, as JSON; else null.
    """

    operation: str
    web: str
    by: str
    begun_us: int
    state: OperationState = OperationState.RUNNING
    ended_us: int | None = None
    step: str = ""
    detail: str = ""
    cancelled_by: str = ""
    result: msgspec.Raw = NOTHING
    error: msgspec.Raw = NOTHING


class TokenRecord(Record, frozen=True, kw_only=True):
    """`/tokens/<id>`: a token of the HTTP API; what was drawn is nowhere.

    Attributes
    ----------
    sha256
        Of the token, in hexadecimal digits.
    created_us, expires_us
        Cluster clock, µs; None: it does not expire.
    """

    sha256: str
    role: Literal["read", "operate"]
    created_us: int
    expires_us: int | None = None
    note: str = ""


class WebRecord(Record, frozen=True, kw_only=True):
    """`/webs/<name>` (ephemeral): a process that serves the HTTP API."""

    address: str
    pid: int
    versions: Versions = FIRST
