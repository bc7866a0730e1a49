"""Asking the leader for a plan, and consenting to it.

The leader responds to a request with a proposal (`orchestrator.records.proposals`). Whoever
consents to it gets exactly that, or is told what has changed since it was made.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from types import TracebackType

import msgspec

from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.errors import Unreachable
from orchestrator.manifest import Manifests
from orchestrator.progress import Progress, silent
from orchestrator.records import (
    ApplyRequest,
    BeginFrom,
    PlanDocument,
    ProposalRecord,
    Refusal,
    Wish,
)
from orchestrator.store.protocol import LEADER, PROPOSALS, Store
from orchestrator.store.requests import LeaderRequest, lost, no_longer

NOTHING = Manifests(cluster=None, streams=(), queries=())

LEADER_TIMEOUT_S = 15.0
"""How long there may be no leader: a new one has to be elected first."""

RESPONSE_S = 300.0
"""How long one leader may take to respond: nothing that is planned takes minutes."""

SETTLES_S = 20.0
"""How long latencies may take to be known that speak against a query, as in a cluster that starts.
Where links violate the triangle inequality, coordinates may never settle."""

ASK_EVERY_S = 0.5
"""Between two requests of what was refused; each plan takes the processor from hosts that start."""

LOOK_EVERY_S = 0.1


class ProposalClient:
    """Requests of one client, and the proposals that respond to them.

    Parameters
    ----------
    by
        Who asks, for the history.

    Attributes
    ----------
    began_us
        When manifests were last to be planned, cluster clock.
    """

    def __init__(self, store: Store, on_progress: Progress = silent, by: str = "") -> None:
        self._store = store
        self._on_progress = on_progress
        self._request = LeaderRequest(store, uuid.uuid4().hex, by)
        self._changed = threading.Event()
        self._watch = store.watch(PROPOSALS, self._changed.set)
        self._proposal: ProposalRecord | None = None
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
        self._request.withdraw()

    @property
    def proposal(self) -> ProposalRecord:
        """The last one."""
        assert self._proposal is not None, "nothing was asked"
        return self._proposal

    def plan(
        self, manifests: Manifests, begin: BeginFrom = BeginFrom.NOW, savepoint: str = ""
    ) -> PlanDocument:
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
        wish = ApplyRequest(
            streams=manifests.streams, queries=manifests.queries, begin=begin, savepoint=savepoint
        )
        give_up = time.monotonic() + SETTLES_S
        while True:
            view = read_view(self._store)
            view.check_readable(each.record.name for each in (*wish.streams, *wish.queries))
            self.began_us = cluster_now_us(view.cluster_clocks)
            refusal = self._respond(wish)
            if refusal is None:
                assert self.proposal.plan is not None
                return self.proposal.plan
            if not refusal.guessed or time.monotonic() > give_up:
                raise refusal.error
            unknown = ", ".join(refusal.guessed)
            self._on_progress("waiting", f"until latencies of {unknown} are known")
            time.sleep(ASK_EVERY_S)

    def ask(self, wish: Wish) -> ProposalRecord:
        """What the leader proposes.

        Raises
        ------
        InvalidInput, Refused
            As the leader says.
        Unreachable
            Nobody leads.
        """
        if (refusal := self._respond(wish)) is not None:
            raise refusal.error
        return self.proposal

    def _respond(self, wish: Wish) -> Refusal | None:
        self._request.make(wish)
        self._proposal = self._awaited(lambda _: True)
        return self._proposal.refusal

    def consent(self) -> None:
        """Have exactly the last proposal carried out.

        Raises
        ------
        Outdated
            Something of what it rests on has changed; nothing was done.
        Unreachable
            Nobody leads. The next leader takes the consent.
        """
        self._request.consent()
        self._proposal = self._awaited(lambda each: each.changed or each.created)
        if not self._proposal.accepted:
            raise no_longer(self._proposal.changed)

    def _awaited(self, is_it: Callable[[ProposalRecord], object]) -> ProposalRecord:
        """The proposal, once it is so.

        Raises
        ------
        Unreachable
            Nobody leads, or the leader does not respond, or nobody knows any more that this was
            asked.
        """
        began_s = led_s = since_s = time.monotonic()
        leader: str | None = None
        while True:
            self._changed.clear()
            found = self._request.look()
            if found is not None and is_it(found):
                return found
            if not self._request.is_there:
                raise lost("`vivace status` shows whether it was carried out.")
            now_s = time.monotonic()
            if (leads := self._store.get(LEADER)) is not None:
                led_s = now_s
                if leads.record.candidate != leader:
                    leader, since_s = leads.record.candidate, now_s
                elif now_s - since_s > RESPONSE_S:
                    problem = f"leads, and has not responded for {RESPONSE_S:g} s"
                    remedy = "Its log says what it does. If it is stuck, end its process."
                    raise Unreachable(f"Coordinator {leader}", "the cluster", problem, remedy)
            elif now_s - led_s > LEADER_TIMEOUT_S:
                problem = f"has not led for {LEADER_TIMEOUT_S:g} s"
                remedy = "`vivace status` shows whether one leads."
                raise Unreachable("A coordinator", "the cluster", problem, remedy)
            self._on_progress("planning", f"the leader plans, {now_s - began_s:.0f} s")
            self._changed.wait(LOOK_EVERY_S)


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
