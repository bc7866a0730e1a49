"""Long operations, as whoever follows them sees them."""

from __future__ import annotations

from typing import Literal

import msgspec

from orchestrator.results.result import Result


class OperationStatus(Result, frozen=True, kw_only=True):
    """A long operation.

    Attributes
    ----------
    name
        Under which it can be followed.
    operation
        Which one it is.
    state
        `abandoned`: the process that carried it out has ended. The leader carries on what was
        consented to; the history says whether it did.
    by
        Who asked.
    begun_us, ended_us
        Cluster clock, µs.
    step, detail
        What was under way last.
    cancelled_by
        Who wants it to end, which it does at its next step; empty: nobody.
    result
        That of the operation, once it is done; else null.
    error
        As in any response that tells of an error, once it has failed or was abandoned; else null.
    """

    name: str
    operation: str
    state: Literal["running", "done", "failed", "abandoned"]
    by: str
    begun_us: int
    ended_us: int | None = None
    step: str = ""
    detail: str = ""
    cancelled_by: str = ""
    result: msgspec.Raw
    error: msgspec.Raw
