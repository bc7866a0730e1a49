"""Asking the leader for a plan, and consenting to it.

The leader responds to a request with a proposal (`orchestrator.records.proposals`). Whoever
consents to it gets exactly that, or is told what has changed since it was made.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

import msgspec

from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.errors import Refused, Unreachable
from orchestrator.manifest import Manifests
from orchestrator.progress import Progress, silent
from orchestrator.records import ApplyRequest, PlanDocument, ProposalRecord
from orchestrator.store.protocol import (
    LEADER,
    MOST_BYTES,
    PROPOSALS,
    REQUESTS,
    RecordInvalid,
    RecordMissing,
    Store,
    StoreError,
    VersionConflict,
    Versioned,
    encode,
)

NOTHING = Manifests(cluster=None, streams=(), queries=())

LEADER_TIMEOUT_S = 15.0
"""How long there may be no leader: a new one has to be elected first."""

SETTLES_S = 20.0
"""How long latencies may take to be known that speak against a query, as in a cluster that starts.
Where links violate the triangle inequality, coordinates may never settle."""

ASK_EVERY_S = 0.5
"""Between two requests of what was refused; each plan takes the processor from hosts that start."""

LOOK_EVERY_S = 0.1


class ProposalClient:
    """A request of one client, and the proposals that respond to it.

    Attributes
    ----------
    began_us
        When the last request was made, cluster clock.
    """

    def __init__(self, store: Store, on_progress: Progress = silent) -> None:
        self._store = store
        self._on_progress = on_progress
        self._name = uuid.uuid4().hex
        self._changed = threading.Event()
        self._watch = store.watch(PROPOSALS, self._changed.set)
        self._found: Versioned[ProposalRecord] | None = None
        self.began_us = 0

    def __enter__(self) -> ProposalClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._watch.cancel()
        self._withdraw()

    @property
    def proposal(self) -> ProposalRecord:
        """The last one."""
        assert self._found is not None, "nothing was asked"
        return self._found.record

    def ask(self, manifests: Manifests) -> PlanDocument:
        """The leader's plan of what runs, and of manifests beside it.

        What is refused because of latencies is asked again until they are known: the first round
        trips of hosts that have just started are slow.

        Raises
        ------
        InvalidInput, Refused
            As the leader says.
        RecordInvalid
            Another version has written something of these names.
        Unreachable
            Nobody leads.
        """
        request = ApplyRequest(streams=manifests.streams, queries=manifests.queries)
        if (size := len(encode(request))) > MOST_BYTES:
            problem = f"are {size:,} bytes, of which the store takes {MOST_BYTES:,} at once"
            remedy, count = "Apply fewer at a time.", len(manifests.queries)
            raise Refused("what is applied", "queries", count, problem, remedy, {})
        give_up = time.monotonic() + SETTLES_S
        while True:
            self._request(request)
            refusal = self.proposal.refusal
            if refusal is None:
                assert self.proposal.plan is not None
                return self.proposal.plan
            if not refusal.guessed or time.monotonic() > give_up:
                raise refusal.error
            unknown = ", ".join(refusal.guessed)
            self._on_progress("waiting", f"until latencies of {unknown} are known")
            time.sleep(ASK_EVERY_S)

    def _request(self, request: ApplyRequest) -> None:
        self._withdraw()
        view = read_view(self._store)
        view.check_readable(each.record.name for each in (*request.streams, *request.queries))
        self.began_us = cluster_now_us(view.cluster_clocks)
        key = REQUESTS.key(self._name)
        self._store.create(key, request, ephemeral=True)
        asked = self._store.get(key)
        if asked is None:
            problem = "was lost with the session of this command"
            raise Unreachable("The request", "the cluster", problem, "Try again.")
        self._found = self._awaited(lambda each: each.request == asked.created)

    def consent(self) -> None:
        """Have exactly the last proposal carried out.

        Raises
        ------
        Refused
            Something of what it rests on has changed; nothing was done.
        Unreachable
            Nobody leads. The next leader takes the consent.
        """
        assert self._found is not None, "nothing was asked"
        consented = msgspec.structs.replace(self.proposal, consented=True)
        try:
            self._store.update(PROPOSALS.key(self._name), consented, self._found.version)
        except (VersionConflict, RecordMissing):
            raise _no_longer(("the leader's proposal",)) from None
        self._found = self._awaited(lambda each: each.changed or each.created)
        if not self.proposal.accepted:
            raise _no_longer(self.proposal.changed)

    def _awaited(self, is_it: Callable[[ProposalRecord], object]) -> Versioned[ProposalRecord]:
        """The proposal, once it is so.

        Raises
        ------
        Unreachable
            Nobody leads, or nobody knows any more that this was asked.
        """
        began_s = led_s = time.monotonic()
        while True:
            self._changed.clear()
            with suppress(RecordInvalid):
                found = self._store.get(PROPOSALS.key(self._name))
                if found is not None and is_it(found.record):
                    return found
            if self._store.get(REQUESTS.key(self._name)) is None:
                problem = "was lost with the session of this command"
                remedy = "`vivace status` shows whether it was carried out."
                raise Unreachable("The request", "the cluster", problem, remedy)
            now_s = time.monotonic()
            if self._store.get(LEADER) is not None:
                led_s = now_s
            elif now_s - led_s > LEADER_TIMEOUT_S:
                problem = f"has not led for {LEADER_TIMEOUT_S:g} s"
                remedy = "`vivace status` shows whether one leads."
                raise Unreachable("A coordinator", "the cluster", problem, remedy)
            self._on_progress("planning", f"the leader plans, {now_s - began_s:.0f} s")
            self._changed.wait(LOOK_EVERY_S)

    def _withdraw(self) -> None:
        # It goes with the session anyway.
        with suppress(StoreError):
            if (found := self._store.get(REQUESTS.key(self._name))) is not None:
                self._store.delete(REQUESTS.key(self._name), found.version)


def _no_longer(changed: tuple[str, ...]) -> Refused:
    problem = f"{', '.join(changed)} changed after the plan was made"
    return Refused("the plan", "basis", None, problem, "Nothing was changed. Apply again.", {})


def running_plan(view: ClusterView, plan: PlanDocument) -> PlanDocument:
    """A plan that was carried out, as it is seen to run."""
    pairs = {
        found.record.fragment: (
            found.record.primary.node,
            found.record.secondary.node if found.record.secondary else None,
        )
        for found in view.fragments.values()
    }
    fragments = tuple(
        msgspec.structs.replace(
            each, runs=pairs.get(each.fragment) == (each.primary, each.secondary)
        )
        for each in plan.fragments
    )
    return msgspec.structs.replace(plan, fragments=fragments)
