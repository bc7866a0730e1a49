"""The rig's API over HTTPS, and what the product asks of it."""

from __future__ import annotations

import http.client
import json
import shutil
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import Unreachable
from orchestrator.spark.hosts.kubernetes import DriverPod, remove_pods
from tests.platform.access import Access
from tests.platform.api import Api, Sender
from tests.platform.certificate import Certificate
from tests.platform.http_server import INITIAL_EVENTS_END, ApiServer
from tests.platform.kinds import BINDING, NAMESPACE, POD, ROLE, Object, name_of
from tests.platform.objects import Objects

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl makes a certificate"),
]

SENDER = Sender(user="admin", manager="test")

PODS = "/api/v1/namespaces/default/pods"

DRIVER = DriverPod(
    name="driver", namespace="default", address="10.0.0.7", secret_file=Path("/s"), cluster="c",
    application="application-2", zookeeper="zk:2181",
)  # fmt: skip

WATCH = "?watch=true&sendInitialEvents=true&allowWatchBookmarks=true"


@dataclass
class Served:
    """A served API, and an account's folder as a pod finds it."""

    api: Api
    access: Access
    port: int
    account: Path

    def connect(self) -> http.client.HTTPSConnection:
        trusted = ssl.create_default_context(cafile=str(self.account / "ca.crt"))
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=trusted, timeout=60)

    def ask(
        self, method: str, path: str, body: Any = None, content: str = "application/json",
        token: str | None = None,
    ) -> tuple[int, Any]:  # fmt: skip
        token = self.access.admin_token if token is None else token
        headers = {"Authorization": f"Bearer {token}", "Content-Type": content}
        with closing(self.connect()) as connection:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())

    def pod(self, name: str, **labels: str) -> None:
        spec = {"containers": [{"name": "c", "image": "i"}]}
        given: Object = {"metadata": {"name": name, "labels": labels}, "spec": spec}
        self.api.create(POD, "default", given, SENDER)


def no_log(_pod: Object, _container: str) -> str:
    return ""


def no_command(_pod: Object, _container: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
    raise AssertionError(command)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    objects = Objects()
    api, access = Api(objects), Access(objects)
    space: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    api.create(NAMESPACE, "", space, SENDER)
    certificate = Certificate.make(tmp_path, "127.0.0.1")
    account = tmp_path
    (account / "token").write_text(access.token_of("default", "driver"))
    with closing(ApiServer("127.0.0.1", api, access, no_log, no_command, certificate)) as server:
        yield Served(api, access, server.port, account)


def test_clients_find_what_is_served(served: Served) -> None:
    status, groups = served.ask("GET", "/apis")
    assert status == 200
    assert {"apps", "batch", "policy"} <= {group["name"] for group in groups["groups"]}
    _, listed = served.ask("GET", "/apis/apps/v1")
    assert {"deployments", "deployments/scale"} <= {each["name"] for each in listed["resources"]}
    _, types = served.ask("GET", "/openapi/v3/apis/apps/v1")
    schema = types["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"]
    kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert schema["x-kubernetes-group-version-kind"] == [kind]
    assert served.ask("GET", "/apis/none/v1/things")[0] == 404


def test_objects_are_made_patched_listed_and_deleted(served: Served) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    given: Object = {"metadata": {"name": "a", "labels": {"app": "x"}}, "spec": spec}
    assert served.ask("POST", PODS, given)[0] == 201
    assert served.ask("POST", PODS, given)[0] == 409
    change: Object = {"metadata": {"labels": {"app": "y"}}}
    status, found = served.ask("PATCH", f"{PODS}/a", change, "application/merge-patch+json")
    assert (status, found["metadata"]["labels"]) == (200, {"app": "y"})
    assert served.ask("GET", f"{PODS}?labelSelector=app%3Dx")[1]["items"] == []
    assert len(served.ask("GET", f"{PODS}?labelSelector=app%3Dy")[1]["items"]) == 1
    assert served.ask("DELETE", PODS, {"gracePeriodSeconds": 0})[0] == 200
    assert served.ask("GET", f"{PODS}/a")[0] == 404


def test_a_watch_tells_of_what_is_there_of_the_end_of_that_and_of_changes(served: Served) -> None:
    served.pod("a")
    with closing(served.connect()) as connection:
        headers = {"Authorization": f"Bearer {served.access.admin_token}"}
        connection.request("GET", PODS + WATCH, headers=headers)
        response = connection.getresponse()

        def event() -> tuple[str, Object]:
            line = json.loads(response.readline())
            return line["type"], line["object"]["metadata"]

        kind, found = event()
        assert (kind, found["name"]) == ("ADDED", "a")
        kind, found = event()
        assert (kind, found["annotations"]) == ("BOOKMARK", {INITIAL_EVENTS_END: "true"})
        served.pod("b")
        served.api.objects.delete(POD, "default", "a")
        seen = [event() for _ in range(2)]
        assert [(each, found["name"]) for each, found in seen] == [("ADDED", "b"), ("DELETED", "a")]


def test_nobody_is_refused_without_the_reason(served: Served) -> None:
    status, said = served.ask("GET", PODS, token="")
    assert (status, said["reason"]) == (403, "Forbidden")
    status, said = served.ask("GET", PODS, token="other")
    assert (status, said["reason"]) == (401, "Unauthorized")
    given: Object = {"metadata": {"name": "a"}, "spec": {"containers": [], "hostNetwrk": True}}
    status, said = served.ask("POST", PODS, given)
    assert status == 422
    assert "'hostNetwrk' was unexpected" in said["message"]


def allow(served: Served, *verbs: str) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": list(verbs)}]
    role: Object = {"metadata": {"name": "driver"}, "rules": rules}
    served.api.create(ROLE, "default", role, SENDER)
    group = "rbac.authorization.k8s.io"
    binding: Object = {
        "metadata": {"name": "driver"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "driver"},
        "subjects": [{"kind": "ServiceAccount", "name": "driver"}],
    }
    served.api.create(BINDING, "default", binding, SENDER)


def test_a_host_pool_removes_the_pods_of_its_applications_former_lives_alone(
    served: Served,
) -> None:
    allow(served, "list", "deletecollection")
    mine = {**DRIVER.labels}
    namesake = replace(DRIVER, zookeeper="other:2181")
    served.pod("old-1", **mine)
    served.pod("old-2", **mine)
    served.pod("driver", **{**mine, "spark-role": "driver"})
    served.pod("other", **{**mine, "vivace-application": "application-1"})
    served.pod("namesakes", **namesake.labels)
    master = f"k8s://https://127.0.0.1:{served.port}"
    assert remove_pods(master, DRIVER, served.account) == ["old-1", "old-2"]
    assert {name_of(pod) for pod in served.api.objects.list(POD)} == {
        "driver", "other", "namesakes"
    }  # fmt: skip
    assert remove_pods(master.replace("https://", ""), DRIVER, served.account) == []


def test_a_host_pool_without_the_right_to_says_so(served: Served) -> None:
    master = f"k8s://https://127.0.0.1:{served.port}"
    with pytest.raises(Unreachable, match=r"refuses \(403: pods is forbidden"):
        remove_pods(master, DRIVER, served.account)
    (served.account / "token").unlink()
    with pytest.raises(Unreachable, match="does not respond"):
        remove_pods(master, DRIVER, served.account)
