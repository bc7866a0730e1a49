"""Pods of the rig are processes: what they find, how they end, and how they are started again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.platform.kinds import POD, POLICY, Object, name_of
from tests.platform.network import may_isolate
from tests.platform.rig import Rig, rig

pytestmark = [pytest.mark.platform, pytest.mark.slow]

CONFIG = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: page}
data: {index.html: hello, level: high}
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData: {key: hidden}
"""

WEB = """\
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 10
  volumes:
  - {name: page, configMap: {name: page}}
  - {name: key, secret: {secretName: key}}
  - {name: data, emptyDir: {}}
  initContainers:
  - name: first
    image: shell
    command: [sh, -c, "cat /page/index.html > /data/made"]
    volumeMounts: [{name: page, mountPath: /page}, {name: data, mountPath: /data}]
  containers:
  - name: web
    image: python
    command: [sh, -c]
    args:
    - |
      cat /data/made /key/key; echo " $LEVEL $GREETING $NODE"
      trap 'echo told; exit 0' TERM
      python3 -m http.server --directory /page --bind $(ADDRESS) 8000 &
      wait
    env:
    - {name: ADDRESS, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: LEVEL, valueFrom: {configMapKeyRef: {name: page, key: level}}}
    - {name: GREETING, value: "$(LEVEL)er"}
    volumeMounts:
    - {name: page, mountPath: /page}
    - {name: key, mountPath: /key, readOnly: true}
    - {name: data, mountPath: /data}
    readinessProbe: {httpGet: {path: /, port: 8000}, periodSeconds: 1}
    lifecycle: {preStop: {exec: {command: [sh, -c, "echo before; cat /data/made"]}}}
"""

CLOSED = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: closed}}
spec:
  restartPolicy: Never
  securityContext: {{runAsNonRoot: true, seccompProfile: {{type: RuntimeDefault}}}}
  volumes: [{{name: data, emptyDir: {{}}}}, {{name: tmp, emptyDir: {{}}}}]
  containers:
  - name: closed
    image: python
    command: [sh, -c]
    args:
    - |
      id -u; hostname; echo $$$$
      touch /x || echo closed; touch /data/x && echo open
      {sys.executable} -c 'import orchestrator; print("imported")'
      getent passwd 10001 | cut -d: -f6; touch /tmp/x && echo volume
      cat /var/run/secrets/kubernetes.io/serviceaccount/namespace; echo
      echo the end > /dev/termination-log; exit 3
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {{drop: [ALL]}}
    volumeMounts: [{{name: data, mountPath: /data}}, {{name: tmp, mountPath: /tmp}}]
"""

FRAIL = """\
apiVersion: v1
kind: Pod
metadata: {name: frail}
spec:
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  containers:
  - name: frail
    image: shell
    command: [sh, -c, "trap '' TERM; while :; do sleep 1 & wait; done"]
    livenessProbe: {exec: {command: [sh, -c, "test ! -e GONE"]}, periodSeconds: 1}
"""

isolated = pytest.param(
    True,
    id="namespaces",
    marks=pytest.mark.skipif(not may_isolate(), reason="no namespaces can be made: takes root"),
)


@pytest.fixture(params=[isolated, pytest.param(False, id="loopback")])
def platform(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    with rig(tmp_path / "rig", isolated=request.param) as made:
        yield made


def pod(platform: Rig, name: str) -> Object:
    return platform.objects.get(POD, "default", name)


def last_phase(platform: Rig, name: str) -> str:
    """What whoever watches is told of a pod that is gone: Spark goes by that."""
    changes = platform.objects.since(0, 0.0)
    (last,) = [c.found for c in changes if c.event == "DELETED" and name_of(c.found) == name]
    return last["status"]["phase"]


def test_a_pod_waits_for_its_files_finds_them_serves_and_ends_in_order(
    platform: Rig, tmp_path: Path
) -> None:
    platform.apply(WEB)
    platform.wait(lambda: "not found" in (pod(platform, "web")["status"].get("message") or ""))
    platform.apply(CONFIG)
    platform.wait(lambda: platform.ready(app="web") == ["web"])
    found = pod(platform, "web")
    node = found["spec"]["nodeName"]
    assert f"hellohidden high higher {node}\n" in platform.log(found)
    if platform.isolated:
        platform.copy(found, "/data", tmp_path / "copied")
        assert (tmp_path / "copied" / "made").read_text() == "hello"
    platform.delete(POD, "web")
    platform.wait(lambda: not platform.pods(), "the pod is gone")
    assert last_phase(platform, "web") in ("Succeeded", "Failed")
    run = platform.kubelet.run_of(found)
    assert run is not None
    told = platform.log(found)
    assert told.index("before\nhello") < told.index("told")


def test_a_container_that_is_not_alive_is_started_again_and_one_that_ignores_its_end_is_killed(
    platform: Rig, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    platform.apply(FRAIL.replace("GONE", str(gone) if not platform.isolated else "/gone"))
    platform.wait(lambda: pod(platform, "frail")["status"].get("phase") == "Running")

    def restarts() -> int:
        statuses = pod(platform, "frail")["status"].get("containerStatuses") or ()
        return sum(each["restartCount"] for each in statuses)

    if platform.isolated:
        run = platform.kubelet.run_of(pod(platform, "frail"))
        assert run is not None
        platform.wait(lambda: run.execute("frail", ["touch", "/gone"]) == 0)
    else:
        gone.touch()
    platform.wait(lambda: restarts() == 1)
    gone.unlink(missing_ok=True)
    platform.delete(POD, "frail")
    platform.wait(lambda: not platform.pods(), "the pod is gone")
    assert last_phase(platform, "frail") == "Failed"


def test_a_container_has_a_user_files_and_a_name_of_its_own(tmp_path: Path) -> None:
    if not may_isolate():
        pytest.skip("no namespaces can be made: takes root")
    with rig(tmp_path / "rig") as platform:
        platform.apply(CLOSED)
        platform.wait(lambda: pod(platform, "closed")["status"]["phase"] == "Failed")
        found = pod(platform, "closed")
        (status,) = found["status"]["containerStatuses"]
        end = status["state"]["terminated"]
        assert (end["exitCode"], end["message"]) == (3, "the end\n")
        lines = [line for line in platform.log(found).splitlines() if "touch" not in line]
        told = ["10001", name_of(found), "1", "closed", "open", "imported", "/tmp", "volume"]
        assert lines == [*told, "default"]
    assert not Path("/x").exists()


def test_names_of_services_stand_for_their_ready_pods(tmp_path: Path) -> None:
    if not may_isolate():
        pytest.skip("no namespaces can be made: takes root")
    with rig(tmp_path / "rig") as platform:
        platform.apply(CONFIG)
        platform.apply(WEB)
        platform.apply("""\
apiVersion: v1
kind: Service
metadata: {name: site}
spec: {selector: {app: web}, ports: [{port: 8000}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: asks}
spec:
  backoffLimit: 100
  template:
    spec:
      restartPolicy: OnFailure
      containers:
      - name: asks
        image: python
        command: [python3, -c]
        args: ["import urllib.request as u; print(u.urlopen('http://site:8000/').read())"]
""")
        platform.wait(
            lambda: any("hello" in platform.log(p) for p in platform.pods(**{"job-name": "asks"}))
        )


SERVER = """\
apiVersion: v1
kind: Pod
metadata: {name: server, labels: {app: server}}
spec:
  containers:
  - name: server
    image: python
    command: [sh, -c, "for port in 8000 8001; do python3 -m http.server $port & done; wait"]
    ports: [{name: web, containerPort: 8000}, {name: other, containerPort: 8001}]
    readinessProbe: {tcpSocket: {port: 8001}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: server}
spec: {selector: {app: server}, ports: [{port: 8000}]}
"""

CLIENT = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{{name: client, image: shell, command: [sleep, "600"]}}]
"""

IN = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: in}
spec:
  podSelector: {matchLabels: {app: server}}
  ingress:
  - from: [{podSelector: {matchLabels: {app: friend}}}]
    ports: [{port: web}]
"""

OUT = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: out}
spec:
  podSelector: {matchLabels: {app: friend}}
  policyTypes: [Egress]
  egress:
  - ports: [{port: 53, protocol: UDP}]
  - to: [{podSelector: {matchLabels: {app: server}}}]
    ports: [{port: 8001}]
"""

CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)"


def test_connections_that_no_policy_admits_are_refused(tmp_path: Path) -> None:
    if not may_isolate():
        pytest.skip("no namespaces can be made: takes root")
    with rig(tmp_path / "rig") as platform:
        if not platform.policies.enforced:
            pytest.skip("no `nft` on the PATH (Debian: apt-get install nftables)")
        platform.apply(SERVER)
        for name in ("friend", "stranger"):
            platform.apply(CLIENT, name=name)
        platform.wait(lambda: len(platform.ready()) == 3)

        def connects(client: str) -> list[bool]:
            run = platform.kubelet.run_of(pod(platform, client))
            command = [sys.executable, "-c", CONNECT, "server"]
            return [
                run is not None and run.execute("client", [*command, port]) == 0
                for port in ("8000", "8001")
            ]

        assert connects("friend") == connects("stranger") == [True, True]
        platform.apply(IN)
        platform.wait(lambda: connects("friend") == [True, False])
        assert connects("stranger") == [False, False]
        # One end's policy suffices to refuse.
        platform.apply(OUT)
        platform.wait(lambda: connects("friend") == [False, False])
        platform.delete(POLICY, "in")
        platform.wait(lambda: connects("friend") == [False, True])
        assert connects("stranger") == [True, True]
        # Whoever comes later is admitted as what it is; the node always is.
        platform.apply(IN)
        platform.delete(POD, "friend")
        platform.delete(POLICY, "out")
        platform.wait(lambda: not platform.pods(app="friend"))
        platform.apply(CLIENT, name="friend")
        platform.wait(lambda: "friend" in platform.ready())
        platform.wait(lambda: connects("friend") == [True, False])
        assert "server" in platform.ready()
