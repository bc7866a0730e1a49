"""The drills there are, those that were run, and what the history says of them."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.results.drill_report import DrillReport
from orchestrator.results.result import Result
from orchestrator.results.status import EventDocument


class DrillDocument(Result, frozen=True, kw_only=True):
    """A drill that can be run."""

    name: str
    what: str


class DrillRun(Result, frozen=True, kw_only=True):
    """One drill of a series: its report, or why there is none.

    Attributes
    ----------
    inapplicable
        Why it does not fit the cluster. It has neither passed nor failed then.
    unpredicted
        Why it was not predicted, although that was wanted.
    """

    drill: str
    report: DrillReport | None = None
    problem: str | None = None
    inapplicable: str | None = None
    unpredicted: str | None = None

    @property
    def passed(self) -> bool:
        """Whether everything that was promised held."""
        return self.report is not None and not self.report.failures

    @property
    def told(self) -> str:
        """The result in a line for people."""
        if self.report is None:
            return f"{self.drill}: {self.problem or f'does not fit: {self.inapplicable}'}"
        figures = f"recovery {self.report.recovery_ms:.0f} of {self.report.bound_ms:.0f} ms"
        return f"{self.drill}: {'; '.join(self.report.failures) or 'passed'}; {figures}"


class DrillRecord(Result, frozen=True, kw_only=True):
    """What the history says of a drill.

    Attributes
    ----------
    what
        What fails, or is done.
    at_us
        When it was last run, cluster clock, µs; None: it never was, or longer ago than the history
        goes.
    passed
        Whether everything that was promised held the last time.
    runs, failed
        How often it was run, and failed.
    longest_ms, bound_ms
        The longest recovery of all runs, and the tightest bound among them.
    unfit
        Why it cannot be run on this cluster; None if it can.
    """

    name: str
    what: str = ""
    at_us: int | None = None
    passed: bool | None = None
    detail: str = ""
    runs: int = 0
    failed: int = 0
    longest_ms: float | None = None
    bound_ms: float | None = None
    unfit: str | None = None


class DrilledFragment(Result, frozen=True, kw_only=True):
    """A fragment that runs, what is promised of it, and which drills have struck its primary.

    Attributes
    ----------
    planned_ms
        How long its recovery takes at most, by the plan; None if it has no secondary.
    drills
        Drill → how often.
    """

    fragment: str
    bound_ms: float | None
    planned_ms: float | None
    drills: Mapping[str, int]


class DrilledRun(Result, frozen=True, kw_only=True):
    """A drill that was run.

    Attributes
    ----------
    at_us
        When it had ended, cluster clock, µs.
    report
        None if it could not be measured, as `detail` says, or has another version's report.
    recoveries
        What the takeovers that it caused took, beside what the plan had said: events.
    """

    drill: str
    at_us: int
    passed: bool
    detail: str
    report: DrillReport | None
    recoveries: tuple[EventDocument, ...]


class DrillAudit(Result, frozen=True, kw_only=True):
    """All that the history says of drills.

    Attributes
    ----------
    at_us
        When the history was read, cluster clock, µs.
    since_us
        How far the history goes back; None if it is empty.
    unended
        Drills that were begun and have no result, as events: interrupted, or still under way.
    """

    cluster: str
    at_us: int
    since_us: int | None
    drills: tuple[DrillRecord, ...]
    fragments: tuple[DrilledFragment, ...]
    runs: tuple[DrilledRun, ...]
    unended: tuple[EventDocument, ...] = ()
