"""A driver that starts leaves alone what a former one, which still runs, has yet to empty."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from orchestrator.deploy import entry_point
from orchestrator.deploy.entry_point import Ended, Waiting
from orchestrator.errors import Unreachable
from orchestrator.health import Health
from orchestrator.spark.hosts.kubernetes import DriverPod, former_drivers, remove_pods

NOW = datetime(2026, 1, 1, tzinfo=UTC)

ME = DriverPod(
    name="driver-2", namespace="streams", address="10.0.0.7", secret_file=Path("/run/secret"),
    cluster="aircraft", application="east", zookeeper="zk:2181",
)  # fmt: skip

FORMER = "driver-1"


@dataclass
class Pods:
    """Pods of a namespace, and what serves them as the API does."""

    found: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    refuses: bool = False
    url: str = ""

    def add(self, name: str, *owners: str, **fields: Any) -> None:
        labels = {**ME.labels} if owners else {}
        references = [{"kind": "Pod", "name": each, "uid": f"uid-{each}"} for each in owners]
        metadata = {"name": name, "uid": f"uid-{name}", "labels": labels}
        metadata |= {"ownerReferences": references, **fields}
        self.found[name] = {"metadata": metadata, "status": {"phase": "Running"}}

    def answer(self, method: str, path: str) -> tuple[int, Any]:
        split = urlsplit(path)
        assert split.path.startswith("/api/v1/namespaces/streams/pods")
        if self.refuses:
            return 403, {"message": "pods is forbidden"}
        name = split.path.removeprefix("/api/v1/namespaces/streams/pods").removeprefix("/")
        if name:
            pod = self.found.get(name)
            return (404, {"message": "not found"}) if pod is None else (200, pod)
        wanted = dict(
            each.split("=") for each in parse_qs(split.query)["labelSelector"][0].split(",")
        )
        chosen = {
            each: pod
            for each, pod in self.found.items()
            if wanted.items() <= pod["metadata"]["labels"].items()
        }
        if method == "DELETE":
            for each in chosen:
                del self.found[each]
        return 200, {"items": [*chosen.values()]}


@pytest.fixture
def pods() -> Iterator[Pods]:
    served = Pods()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, said = served.answer(self.command, self.path)
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_DELETE = do_GET

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"k8s://http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield served
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("t")
    return tmp_path


def former(pods: Pods, account: Path) -> list[str]:
    return former_drivers(pods.url, ME, NOW, account)


def test_a_driver_that_is_about_to_end_is_waited_for(pods: Pods, account: Path) -> None:
    ends = (NOW + timedelta(seconds=300)).isoformat()
    pods.add(FORMER, deletionTimestamp=ends)
    pods.add("exec-1", FORMER)
    pods.add("exec-2", FORMER)
    assert former(pods, account) == [FORMER]
    del pods.found[FORMER]
    assert former(pods, account) == []
    assert remove_pods(pods.url, ME, account) == ["exec-1", "exec-2"]
    assert not pods.found


def test_a_driver_that_should_be_gone_is_lost_with_its_machine(pods: Pods, account: Path) -> None:
    pods.add(FORMER, deletionTimestamp=(NOW - timedelta(seconds=1)).isoformat())
    pods.add("exec-1", FORMER)
    assert former(pods, account) == []


def test_a_driver_whose_processes_have_ended_is_not_waited_for(pods: Pods, account: Path) -> None:
    pods.add(FORMER)
    pods.add("exec-1", FORMER)
    assert former(pods, account) == [FORMER]
    pods.found[FORMER]["status"]["phase"] = "Failed"
    assert former(pods, account) == []


def test_another_pod_of_the_same_name_is_no_former_driver(pods: Pods, account: Path) -> None:
    pods.add(FORMER)
    pods.add("exec-1", FORMER)
    pods.found[FORMER]["metadata"]["uid"] = "another"
    assert former(pods, account) == []


def test_what_a_former_life_of_the_same_pod_has_left_is_not_waited_for(
    pods: Pods, account: Path
) -> None:
    pods.add(ME.name)
    pods.add("exec-1", ME.name)
    assert former(pods, account) == []
    assert remove_pods(pods.url, ME, account) == ["exec-1"]


def test_a_right_that_is_missing_is_named(pods: Pods, account: Path) -> None:
    pods.refuses = True
    with pytest.raises(Unreachable, match=r"refuses \(403: pods is forbidden"):
        former(pods, account)


def test_a_process_waits_until_the_former_driver_has_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(entry_point.time, "sleep", slept.append)
    caplog.set_level("INFO")
    looks = [[FORMER], [FORMER], []]
    Waiting(lambda: False, Health()).end_of_drivers(lambda: looks.pop(0))
    assert slept == [entry_point.LOOK_AT_PODS_S] * 2
    assert f"waiting for the former driver {FORMER}, which still runs" in caplog.text
    with pytest.raises(Ended):
        Waiting(lambda: True, Health()).end_of_drivers(lambda: [FORMER])
