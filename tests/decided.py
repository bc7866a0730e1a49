"""What is decided of queries that are applied: how their statements run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from orchestrator.control.decide.admission import Admission, admit
from orchestrator.control.planning.trying import Tries
from orchestrator.host.shell.trial import run_trial
from orchestrator.manifest import Manifests
from orchestrator.records import Rewrite, RewriteKind, RunningQueryRecord, Trial, TrialResult
from orchestrator.simulation.world.clocks import ticking
from tests.obedient_cluster import ObedientCluster

_results: dict[bytes, TrialResult] = {}


def once(trial: Trial) -> TrialResult:
    """The result of a trial on a clock on which everything takes as long as anything; each is run
    once, since its result is always the same."""
    key = msgspec.json.encode(msgspec.structs.replace(trial, patience_us=0.0))
    if key not in _results:
        _results[key] = run_trial(trial, ticking())
    return _results[key]


def by_clock(processor_us: Callable[[], int]) -> Tries:
    """StatementTrials that read a processor clock."""
    return lambda trial: run_trial(trial, processor_us)


@dataclass(frozen=True, slots=True)
class Decided:
    """Manifests, and what is decided of them.

    Attributes
    ----------
    admission
        Of the manifests in a cluster.
    """

    manifests: Manifests
    admission: Admission

    @staticmethod
    def of(
        manifests: Manifests,
        cluster: ObedientCluster | None = None,
        processor_us: Callable[[], int] | None = None,
    ) -> Decided:
        """Decide on manifests."""
        tries = once if processor_us is None else by_clock(processor_us)
        view = (cluster or ObedientCluster()).view()
        return Decided(manifests, admit(view, manifests.streams, manifests.queries, tries))

    def running(self, query: str) -> RunningQueryRecord:
        """How a query runs."""
        return self.admission.running.get(query, RunningQueryRecord(name=query))

    def shared(self, query: str) -> tuple[Rewrite, ...]:
        """What is decided of its statements that others compute."""
        return self._of(query, RewriteKind.SHARED)

    def split(self, query: str) -> tuple[Rewrite, ...]:
        """What is decided of its statements that may be split."""
        return self._of(query, RewriteKind.SPLIT)

    def _of(self, query: str, kind: RewriteKind) -> tuple[Rewrite, ...]:
        return tuple(each for each in self.running(query).rewrites if each.kind is kind)

    @property
    def fragments(self) -> list[str]:
        """What runs, by name."""
        return sorted(self.admission.flow.fragments)

    def apply_to(self, cluster: ObedientCluster) -> None:
        """Write what is new."""
        cluster.apply(self.manifests, self.admission.running)
