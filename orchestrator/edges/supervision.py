"""What the supervisors of sources and of sinks have in common: openings, failures, and retries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from orchestrator.edges.drivers import DriverError

RETRY_US = 500_000
"""Time until a driver that has failed is opened again. Each further failure doubles it."""

LONGEST_RETRY_US = 30_000_000
"""What was out of order may be mended at any time, and a person waits for that."""

LONG_OPENING_US = 5_000_000
"""A source or sink that takes longer to be opened is a problem that people are told of."""


@dataclass(slots=True)
class Failures:
    """The failures of one stream's driver since it last worked, and when to try again.

    Attributes
    ----------
    problem
        What is wrong, in a sentence; None if nothing is.
    retry_us
        When to open the driver again.
    """

    problem: str | None = None
    retry_us: int = 0
    _count: int = 0

    def add(self, problem: str, now_us: int) -> None:
        """Note a failure."""
        self.problem = problem
        self.retry_us = now_us + min(RETRY_US << min(self._count, 16), LONGEST_RETRY_US)
        self._count += 1

    def mended(self) -> None:
        """Note that the driver could be used again."""
        self.problem = None

    def overcome(self) -> None:
        """Note that the driver has done its work again: the next failure is a first one."""
        self.problem, self._count = None, 0


@dataclass(slots=True, kw_only=True)
class Attended:
    """The source or sink of one stream.

    Attributes
    ----------
    waits_for
        For what it waits; None: for nothing.
    """

    failures: Failures = field(default_factory=Failures)
    waits_for: str | None = None


A = TypeVar("A", bound=Attended)


class Supervisor(Generic[A]):
    """All sources, or all sinks, of one host.

    Parameters
    ----------
    role
        `source` or `sink`, for people.
    """

    def __init__(self, role: str) -> None:
        self._role = role
        self._attended: dict[str, A] = {}

    @property
    def attended(self) -> bool:
        """Whether any is open, or waits to be opened."""
        return bool(self._attended)

    @property
    def failures(self) -> dict[str, str]:
        """Stream → why its driver could not be opened, or has stopped."""
        problems = {stream: each.failures.problem for stream, each in self._attended.items()}
        return {stream: problem for stream, problem in problems.items() if problem is not None}

    @property
    def problems(self) -> dict[str, str]:
        """The failures, and stream → for what its driver waits."""
        waits = {stream: each.waits_for for stream, each in self._attended.items()}
        said = {stream: f"{stream}: {what}" for stream, what in waits.items() if what}
        return said | self.failures

    def _note_opening(self, each: A, since_us: int, now_us: int) -> None:
        """Have people told of an opening that takes long."""
        if now_us - since_us >= LONG_OPENING_US:
            each.waits_for = (
                f"its {self._role} takes more than {LONG_OPENING_US // 10**6} s to open"
            )

    def _note_failure(self, each: A, stream: str, error: Exception, now_us: int) -> None:
        """Have people told what a driver has raised, and open it again later."""
        problem = str(error)
        if not isinstance(error, DriverError):
            problem = f"the {self._role} failed: {type(error).__name__}: {error}"
        each.failures.add(f"{stream}: {problem}", now_us)
        each.waits_for = None


def kept(error: BaseException, role: str) -> Exception:
    """An error of a driver's thread for the host's loop, without the objects of that thread.

    A library in Rust panics with what is no `Exception`. A traceback would keep the driver, and its
    end would come on the host's loop.
    """
    if not isinstance(error, Exception):
        error = DriverError(f"the {role} failed: {type(error).__name__}: {error}")
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
