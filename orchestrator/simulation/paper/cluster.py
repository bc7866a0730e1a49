"""The cluster on paper: a copy of the store, a host on paper for each host, and the leader itself.

Time stands still while somebody has something to do, and then jumps over what the leader waits for.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Collection

import msgspec

from orchestrator.control.decide.decision import DecisionSettings
from orchestrator.control.host_trials import HostTrials
from orchestrator.control.observe.missing_hosts import AWAITED_US
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.control.process import Coordination
from orchestrator.errors import VivaceError
from orchestrator.manifest import Manifests
from orchestrator.records import (
    ApplyRequest,
    NodeRecord,
    PlanDocument,
    ProposalRecord,
    Refusal,
    ReplicaId,
    RequestRecord,
)
from orchestrator.simulation.paper.host import PaperHost
from orchestrator.simulation.world.memory_store import MemoryServer
from orchestrator.store.copied import StoreCopy, copy_of
from orchestrator.store.protocol import NODES, PROPOSALS, REQUESTS

MOST_ROUNDS = 200
"""Rounds of leader and hosts after which a decision that is taken back again and again is left."""

LONGEST_US = 4_000_000
"""Longer than a source waits for its start, and a drill's cordon or a move is looked after."""

ASKED = "what-if"
"""Name of the request on paper."""


class PaperStuck(VivaceError):
    """The leader on paper does not come to an end."""

    exit_status = 1


class PaperCluster:
    """See the module.

    Parameters
    ----------
    copy
        Of the store.
    now_us
        The cluster's clock.
    """

    def __init__(self, copy: StoreCopy, now_us: int) -> None:
        self.server = MemoryServer()
        self.server.restore(copy, leave_out=(NODES.path,))
        self.store = self.server.connect()
        self.now_us = now_us
        self.hosts: dict[str, PaperHost] = {}
        for node in _hosts_of(copy):
            self.start(node)
        self._settings = DecisionSettings()
        store = self.server.connect()
        self._leader = Coordination(
            store,
            "paper",
            self._settings,
            trials=HostTrials(store, lambda: self.now_us, self._wait),
        )

    def start(self, record: NodeRecord) -> None:
        """Have one more host."""
        self.hosts[record.node] = PaperHost(self.server, record)

    def view(self) -> ClusterView:
        """What is in the store on paper."""
        return read_view(self.store)

    @property
    def problems(self) -> tuple[str, ...]:
        """What the leader on paper could not solve."""
        return self._leader.problems

    def copy(self) -> StoreCopy:
        """The store on paper, for others to go on with."""
        return copy_of(self.store)

    def settle(self) -> None:
        """Let leader and hosts do all that they have to do.

        Raises
        ------
        PaperStuck
            It does not come to an end.
        """
        waits = (AWAITED_US, self._settings.takeover_grace_us, self._settings.site_patience_us)
        self._settle_now()
        for wait_us in (LONGEST_US, *waits):
            self.now_us += wait_us
            self._settle_now()

    def places(self) -> dict[str, tuple[str | None, str | None]]:
        """Fragment → nodes where its primary and its secondary live."""
        view = self.view()
        return {
            name: (living(view, each.record.primary), living(view, each.record.secondary))
            for name, each in view.fragments.items()
        }

    def lose(self, hosts: Collection[str], order: random.Random | None = None) -> None:
        """Have hosts end for good, at once: replicas that live notice it before the store does.

        Parameters
        ----------
        order
            Draws in which order that is recorded, a record at a time, each of which the leader
            reads. None: it reads all records at once.
        """
        ended = [self.hosts.pop(name) for name in hosts]
        view = self.view()
        gone = {host.me: view.nodes[host.me.node].report for host in ended}
        noticed = [
            (name, host)
            for name, found in view.fragments.items()
            for replica in found.record.replicas[:2]
            if (host := self.hosts.get(replica.node)) is not None and host.me == replica
        ]
        if order is not None:
            order.shuffle(noticed)
        for name, host in noticed:
            host.miss(view.fragments[name], gone, self.now_us)
            if order is not None:
                self._settle_now()
                view = self.view()
        self._settle_now()
        for host in ended:
            host.end()
        self.settle()

    def plan(self) -> PlanDocument:
        """What runs, and what that promises, in the leader's words."""
        proposal = self._ask(ApplyRequest())
        if proposal.plan is None:
            assert proposal.refusal is not None
            raise proposal.refusal.error
        return proposal.plan

    def apply(self, manifests: Manifests) -> dict[str, Refusal]:
        """Bring in what is new, one query after the other; what the leader refuses, and why."""
        refused: dict[str, Refusal] = {}
        if manifests.streams:
            proposal = self._ask(ApplyRequest(streams=manifests.streams), consents=True)
            if proposal.refusal is not None:
                names = [each.record.name for each in manifests.streams]
                return {f"stream {', '.join(names)}": proposal.refusal}
        for query in manifests.queries:
            proposal = self._ask(ApplyRequest(queries=(query,)), consents=True)
            if proposal.refusal is not None:
                refused[query.record.name] = proposal.refusal
        return refused

    def _ask(self, wish: ApplyRequest, *, consents: bool = False) -> ProposalRecord:
        """What the leader responds to a request; with consent, once it has carried it out."""
        key, answer = REQUESTS.key(ASKED), PROPOSALS.key(ASKED)
        self.store.create(key, RequestRecord(wish=wish))
        self._step()
        found = self.store.get(answer)
        assert found is not None, "the leader on paper has not responded"
        if consents and found.record.refusal is None:
            consented = msgspec.structs.replace(found.record, consented=True)
            self.store.update(answer, consented, found.version)
        self.store.delete(key, 0)
        self._settle_now()
        return found.record

    def _settle_now(self) -> None:
        for _ in range(MOST_ROUNDS):
            before = self.server.revision
            again = self._step()
            for host in self.hosts.values():
                host.obey()
            if not again and self.server.revision == before:
                return
        raise PaperStuck(
            "on paper the leader does not come to an end: it takes decisions back again and again"
        )

    def _step(self) -> bool:
        again = self._leader.run_once(self.now_us)
        if self._leader.bug is not None:
            raise self._leader.bug
        return again

    def _wait(self, _changed: threading.Event, seconds: float) -> None:
        """What nobody on paper responds to at once comes never."""
        self.now_us += round(seconds * 1e6)


def living(view: ClusterView, replica: ReplicaId | None) -> str | None:
    """The node of a replica that lives."""
    return replica.node if replica is not None and view.alive(replica) else None


def _hosts_of(copy: StoreCopy) -> list[NodeRecord]:
    """The hosts that run, without observers, and those whose death has been noticed."""
    server = MemoryServer()
    server.restore(copy)
    return [*read_view(server.connect()).trusted.values()]
