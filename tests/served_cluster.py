"""A cluster in memory whose HTTP API is served without a socket."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import msgspec
from litestar.testing import TestClient

from orchestrator.api.connection import Cluster
from orchestrator.deploy.context import ClusterContext
from orchestrator.health import Health
from orchestrator.operations.operation import Operation
from orchestrator.operations.parameters import Parameters
from orchestrator.store.cached import CachedStore
from orchestrator.store.protocol import StoreUnavailable
from orchestrator.web.access import Access
from orchestrator.web.application import Application
from orchestrator.web.openapi import PREFIX
from orchestrator.web.service import Service
from tests.conftest import PATIENCE_S
from tests.obedient_cluster import ObedientCluster

TOKEN = "a token that only tests know"


def reach() -> ClusterContext:
    return ClusterContext(cluster="aircraft", pid=os.getpid(), started_s=0.0, folder="nowhere")


@dataclass
class Served:
    """What serves it, and a client with a token."""

    cluster: ObedientCluster
    service: Service
    client: TestClient[Any]

    def ask(self, operation: Operation[Any, Any], asked: Parameters, **headers: str) -> Any:
        """The response to an operation; of a long one, to the question how it has ended."""
        given = msgspec.to_builtins(asked)
        path = PREFIX + operation.path.format(**given)
        rest = {name: each for name, each in given.items() if name not in operation.path_fields}
        if operation.method == "GET":
            query = {name: each for name, each in rest.items() if each is not None}
            return self.client.get(path, params=query, headers=headers)
        if operation.method == "DELETE":
            return self.client.delete(path, params=rest, headers=headers)
        response = self.client.post(path, json=rest, headers=headers)
        return self.ended(response) if response.status_code == 202 else response

    def ended(self, response: Any) -> Any:
        """The last response of a long operation that was begun."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := self.client.get(response.headers["Location"])).json()["state"] == "running":
            assert time.monotonic() < deadline, "does not end"
        return found


@contextmanager
def served(cluster: ObedientCluster, own: str | None = TOKEN) -> Generator[Served]:
    """Serve a cluster; its leader and hosts take their steps on a thread of their own."""
    changed, done = threading.Event(), threading.Event()
    cluster.server.on_change = lambda _: changed.set()

    def live() -> None:
        while not done.is_set():
            changed.wait(PATIENCE_S)
            changed.clear()
            with suppress(StoreUnavailable):
                while cluster.coordination.run_once(cluster.now_us):
                    pass
                for host in [*cluster.hosts.values()]:
                    host.obey()

    view = CachedStore(cluster.server.connect())
    view.attend()
    service = Service(Cluster(reach(), view), view, "127.0.0.1:8650")
    application = Application(service, Access(own, service.now_us), Health())
    service.long.start()
    thread = threading.Thread(target=live)
    thread.start()
    try:
        with TestClient(application.asgi) as client:
            client.headers["Authorization"] = f"Bearer {own}"
            yield Served(cluster, service, client)
    finally:
        service.close()
        done.set()
        changed.set()
        thread.join()
