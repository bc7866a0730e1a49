"""The trials that a leader has a host run: read from the store, and responded to there."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, contextmanager

import msgspec

from orchestrator.host.shell.trial_process import TrialProcess
from orchestrator.records import HostTrial, ReplicaId, Trial, TrialResult
from orchestrator.store.protocol import TRIALS, Store
from orchestrator.store.responding import RespondingThread, respond_to


class TrialResponses:
    """Responds to the trials of one host, one after the other.

    Parameters
    ----------
    host
        The host in its present incarnation.
    run
        Runs one.
    """

    def __init__(self, store: Store, host: ReplicaId, run: Callable[[Trial], TrialResult]) -> None:
        self._store = store
        self._host = host
        self._run = run

    def respond(self) -> None:
        """Run all that is asked for.

        Raises
        ------
        StoreError
            Call again.
        """
        respond_to(self._store, TRIALS, self._response_to)

    def _response_to(self, asked: HostTrial) -> HostTrial | None:
        if asked.host != self._host or asked.result is not None:
            return None
        return msgspec.structs.replace(asked, result=self._run(asked.trial))


@contextmanager
def responding_to_trials(store: Store, host: ReplicaId) -> Generator[None]:
    """While trials are run in a process of their own, and responded to on a thread."""
    process = TrialProcess()
    responses = TrialResponses(store, host, process.run)

    def respond() -> float | None:
        responses.respond()
        return process.end_if_idle()

    # The process ends first: then the thread need not wait for a trial any more.
    with closing(RespondingThread(store, TRIALS, respond)), closing(process):
        yield
