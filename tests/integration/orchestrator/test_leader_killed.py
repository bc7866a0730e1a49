"""The process that leads is killed in the middle of a request, again and again.

Coordinators are real processes, on a real ZooKeeper; hosts are records that say they are well. What
a client has asked for is there once in the end, or it was refused and nothing of it is there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from orchestrator.api.proposals import ProposalClient
from orchestrator.embedded.packages import source_root
from orchestrator.embedded.zookeeper import EmbeddedZooKeeper
from orchestrator.errors import Refused
from orchestrator.host.shell.trial_responses import TrialResponses
from orchestrator.manifest import Manifests
from orchestrator.records import Estimate, ProposalRecord, Record, ReplicaId, Trial, TrialResult
from orchestrator.store.protocol import (
    CLUSTER,
    FRAGMENTS,
    LEADER,
    NODES,
    PROPOSALS,
    QUERIES,
    STREAMS,
    TRIALS,
    RecordFolder,
)
from orchestrator.store.responding import RespondingThread
from orchestrator.store.zookeeper import ZooKeeperStore
from tests.conftest import PATIENCE_S, WaitUntil
from tests.obedient_cluster import EXECUTORS, ObedientCluster, query_manifest, stream_manifest

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow, pytest.mark.long]

SECRET = "secret"

R = TypeVar("R", bound=Record)

QUERIES_AT_ONCE = 12
"""So many that writing them takes long enough for a kill to come in between."""

COORDINATORS = 2


def manifests(number: int, *, stated: bool) -> Manifests:
    """A stream of its own, and queries on it.

    Parameters
    ----------
    stated
        Whether all figures are stated, so that nothing is tried.
    """
    north = stream_manifest("north")
    stream = msgspec.structs.replace(north.record, name=f"s{number}", rate_bytes_s=1_000.0)
    figures = {"cost_us": 20.0, "selectivity": 1.0} if stated else {}
    queries = [
        query_manifest(
            name=(name := f"q{number}_{each}"),
            statements=f"REGISTER QUERY {name}_out RSTREAM(SELECT id FROM s{number} [NOW]);",
            outputs={f"{name}_out": "control-centre"},
        )
        for each in range(QUERIES_AT_ONCE)
    ]
    return Manifests(
        cluster=None,
        streams=(msgspec.structs.replace(north, record=stream),),
        queries=tuple(
            msgspec.structs.replace(
                each,
                record=msgspec.structs.replace(
                    each.record,
                    estimates={f"{each.record.name}_out": Estimate(**figures)},
                ),
            )
            for each in queries
        ),
    )


class Coordinators:
    """Processes that stand for election, in a cluster of hosts that are records."""

    def __init__(self, folder: Path, zookeeper: str) -> None:
        self._folder = folder
        self._zookeeper = zookeeper
        self._name = uuid.uuid4().hex
        self.store = self.connect()
        self.store.create(CLUSTER, ObedientCluster().view().settings)
        for name, host in ObedientCluster().hosts.items():
            self.store.create(NODES.key(name), host.record, ephemeral=True)
        (folder / "secret").write_text(SECRET)
        (folder / "vivace.yaml").write_text(
            f"cluster: {self._name}\nzookeeper: {zookeeper}\nsecretFile: secret\n"
        )
        self._running: list[subprocess.Popen[bytes]] = []
        for _ in range(COORDINATORS):
            self.start()

    def connect(self) -> ZooKeeperStore:
        """A session of its own."""
        return ZooKeeperStore(self._zookeeper, self._name, SECRET)

    def start(self) -> None:
        command = [sys.executable, "-m", "orchestrator.deploy.coordinator"]
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [*command, "--config", "vivace.yaml"],
                cwd=self._folder,
                env={**os.environ, "PYTHONPATH": str(source_root())},
                stdout=log,
                stderr=log,
            )
        self._running.append(process)

    @property
    def leader(self) -> subprocess.Popen[bytes] | None:
        """The process that leads; None if none that runs does."""
        found = self.store.get(LEADER)
        if found is None:
            return None
        pid = int(found.record.candidate.rsplit("-", 2)[1])
        return next((each for each in self._running if each.pid == pid), None)

    def kill_leader(self) -> None:
        """End the leader as SIGKILL does, and start another process in its place."""
        leader = self.leader
        assert leader is not None
        leader.kill()
        leader.wait()
        self._running.remove(leader)
        self.start()

    def stop_leader(self) -> None:
        leader = self.leader
        assert leader is not None
        leader.send_signal(signal.SIGSTOP)

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()
        self.store.close()

    def named(self, folder: RecordFolder[R], number: int) -> dict[str, R]:
        """What there is of a request."""
        return {
            name: found.record
            for name, found in self.store.list(folder).records.items()
            if name.startswith((f"q{number}_", f"s{number}"))
        }


@pytest.fixture
def coordinators(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Iterator[Coordinators]:
    with closing(Coordinators(tmp_path, zookeeper.connect_string)) as started:
        yield started


class Request(threading.Thread):
    """A client that asks, and consents to what the leader proposes.

    Attributes
    ----------
    consents
        Set: the client may consent.
    proposed, proposal
        Set once the leader has proposed something; what that is.
    refused
        Why it was not carried out.
    """

    def __init__(self, coordinators: Coordinators, number: int, *, stated: bool = True) -> None:
        super().__init__(daemon=True)
        self._coordinators = coordinators
        self.number = number
        self._given = manifests(number, stated=stated)
        self.consents = threading.Event()
        self.proposed = threading.Event()
        self.proposal: ProposalRecord | None = None
        self.refused: Refused | None = None
        self.start()

    def run(self) -> None:
        with (
            closing(self._coordinators.connect()) as store,
            ProposalClient(store) as client,
        ):
            client.plan(self._given)
            self.proposal = client.proposal
            self.proposed.set()
            self.consents.wait()
            try:
                client.consent()
            except Refused as refused:
                self.refused = refused

    def consent(self, wait_until: WaitUntil) -> None:
        wait_until(self.proposed.is_set)
        self.consents.set()


@pytest.fixture
def tried(coordinators: Coordinators) -> Iterator[threading.Event]:
    """Hosts that respond to trials once this is set, and find nothing."""
    may_respond = threading.Event()

    def run(_: Trial) -> TrialResult:
        may_respond.wait()
        return TrialResult(tried={}, recorded=(), took_us=0)

    with ExitStack() as open_threads:
        for name in EXECUTORS:
            found = coordinators.store.get(NODES.key(name))
            assert found is not None
            host = ReplicaId(node=name, incarnation=found.record.incarnation)
            responses = TrialResponses(coordinators.store, host, run)
            thread = RespondingThread(coordinators.store, TRIALS, responses.respond)
            open_threads.enter_context(closing(thread))
        yield may_respond
        may_respond.set()


def in_the_middle_of_a_proposal(
    coordinators: Coordinators, tried: threading.Event, wait_until: WaitUntil
) -> Request:
    request = Request(coordinators, 0, stated=False)
    wait_until(lambda: bool(coordinators.store.list(TRIALS).records))
    assert not coordinators.store.list(PROPOSALS).records
    coordinators.kill_leader()
    tried.set()
    request.consent(wait_until)
    return request


def before_a_consent_is_read(
    coordinators: Coordinators, _: threading.Event, wait_until: WaitUntil
) -> Request:
    request = Request(coordinators, 1)
    wait_until(request.proposed.is_set)
    coordinators.stop_leader()
    request.consents.set()
    wait_until(lambda: is_consented(coordinators.store))
    coordinators.kill_leader()
    return request


def as_soon_as_there_is_a_consent(
    coordinators: Coordinators, _: threading.Event, wait_until: WaitUntil
) -> Request:
    request = Request(coordinators, 2)
    request.consent(wait_until)
    wait_until(lambda: is_consented(coordinators.store), every_s=0.0)
    coordinators.kill_leader()
    return request


def is_consented(store: ZooKeeperStore) -> bool:
    return any(found.record.consented for found in store.list(PROPOSALS).records.values())


def after_the_first_stream(
    coordinators: Coordinators, _: threading.Event, wait_until: WaitUntil
) -> Request:
    return in_the_middle_of_an_apply(coordinators, Request(coordinators, 3), STREAMS, wait_until)


def after_the_first_query(
    coordinators: Coordinators, _: threading.Event, wait_until: WaitUntil
) -> Request:
    return in_the_middle_of_an_apply(coordinators, Request(coordinators, 4), QUERIES, wait_until)


def in_the_middle_of_an_apply(
    coordinators: Coordinators,
    request: Request,
    folder: RecordFolder[Any],
    wait_until: WaitUntil,
) -> Request:
    request.consent(wait_until)
    wait_until(lambda: bool(coordinators.named(folder, request.number)), every_s=0.0)
    coordinators.kill_leader()
    return request


KILLS: tuple[Callable[[Coordinators, threading.Event, WaitUntil], Request], ...] = (
    in_the_middle_of_a_proposal,
    before_a_consent_is_read,
    as_soon_as_there_is_a_consent,
    after_the_first_stream,
    after_the_first_query,
)


def test_what_was_asked_is_carried_out_once_or_refused_whenever_the_leader_is_killed(
    coordinators: Coordinators, tried: threading.Event, wait_until: WaitUntil
) -> None:
    for number, kill in enumerate(KILLS):
        wait_until(lambda: coordinators.leader is not None)
        request = kill(coordinators, tried, wait_until)
        request.join(PATIENCE_S)
        # The leader deletes a proposal from which nothing follows any more.
        wait_until(lambda: not coordinators.store.list(PROPOSALS).records)
        assert request.number == number
        check(coordinators, request)
    assert {*coordinators.store.list(QUERIES).records} >= {*done(0), *done(1)}


def done(number: int) -> set[str]:
    """Names of the queries of a request."""
    return {f"q{number}_{each}" for each in range(QUERIES_AT_ONCE)}


def check(coordinators: Coordinators, request: Request) -> None:
    """It was carried out once, as it was proposed, or nothing of it was."""
    number = request.number
    proposal = request.proposal
    assert proposal is not None
    placed = {each.key: each for placed in proposal.placements for each in placed.created}
    fragments = coordinators.named(FRAGMENTS, number)
    if request.refused is not None:
        for folder in (STREAMS, QUERIES, FRAGMENTS):
            assert not coordinators.named(folder, number)
        return
    assert {*coordinators.named(STREAMS, number)} == {f"s{number}"}
    assert {*coordinators.named(QUERIES, number)} == done(number)
    assert {name: each.replicas for name, each in fragments.items()} == {
        name: each.replicas for name, each in placed.items()
    }
    told = Counter((each.event.kind, each.event.subject) for each in coordinators.store.history())
    for name in done(number):
        assert told["applied", f"query {name}"] <= 1
        assert told["planned again", name] == 0
