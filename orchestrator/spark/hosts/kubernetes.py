"""Spark on Kubernetes: a driver in a pod (client mode) that has Spark make pods of executors.

Spark's own backend makes, watches and replaces the pods; it is in PySpark's jars. What a pod has
beside that (mounts, probes, what runs before its end) says a template, which the setting
`spark.kubernetes.executor.podTemplateFile` names. A pod runs `vivace-container executor`.

The driver's pod owns the executors' pods, so they go with it. When only its container ends and
starts again, they would stay: `remove_pods` removes them before Spark starts. A platform may start
another driver's pod before the former one has ended, and left: `former_drivers` tells.
"""

from __future__ import annotations

import hashlib
import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from orchestrator.embedded.class_data import class_data_options
from orchestrator.embedded.java import SMALL_JVM, find_java
from orchestrator.errors import InvalidInput, Unreachable
from orchestrator.spark.authentication import AUTHENTICATED, SECRET_FILE_SETTING

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its namespace, its token, and whom to trust."""

POD_VARIABLE = "VIVACE_POD"
"""Name of the driver's own pod."""

NAMESPACE_SETTING = "spark.kubernetes.namespace"
"""In which Spark makes pods."""

DRIVER_PORT, BLOCK_PORT = 7078, 7079

POLLED_EVERY = "5s"

MOST_FAILURES = 2**31 - 1
"""Spark ends an application that has lost more executors than this."""

CLUSTER_LABEL, APPLICATION_LABEL = "vivace-cluster", "vivace-application"

STORE_LABEL = "vivace-store"

MOST_LABEL, DIGITS = 63, 16
"""Characters of a label's value, and of a digest that stands for the rest of a name."""

TIMEOUT_S = 30.0

ENDED = ("Succeeded", "Failed")
"""Phases of a pod all of whose processes have ended."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverPod:
    """The pod of a host pool.

    Attributes
    ----------
    name
        Empty if it is not known: then nothing removes the executors' pods with this one.
    namespace
        Of it, and of the pods that it makes.
    address
        By which executors reach it.
    secret_file
        Where it, and each executor, finds the cluster's secret. With it they authenticate each
        other. Spark would write a secret of its own into each pod's specification.
    cluster, application
        Whose executors it runs.
    zookeeper
        The servers of the cluster's store: clusters of other stores may have the same name.
    """

    name: str
    namespace: str
    address: str
    secret_file: Path
    cluster: str
    application: str
    zookeeper: str

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels of the pods of its executors, those of former lives included."""
        return {
            CLUSTER_LABEL: label_value(self.cluster),
            APPLICATION_LABEL: label_value(self.application),
            STORE_LABEL: _digest(self.zookeeper),
            "spark-role": "executor",
        }


def label_value(name: str) -> str:
    """A name as the value of a label; names that differ stay different.

    Examples
    --------
    >>> label_value("aircraft"), len(label_value("x" * 100))
    ('aircraft', 63)
    """
    if len(name) <= MOST_LABEL:
        return name
    return f"{name[: MOST_LABEL - DIGITS - 1]}-{_digest(name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def kubernetes_settings(pod: DriverPod) -> dict[str, str]:
    """Spark's settings for this master, which a user's own win over."""
    labels = {
        f"spark.kubernetes.executor.label.{name}": value
        for name, value in pod.labels.items()
        if not name.startswith("spark-")
    }
    own = {"spark.kubernetes.driver.pod.name": pod.name} if pod.name else {}
    # Executors have the same image.
    options = [*SMALL_JVM, *class_data_options(find_java())]
    return {
        **labels,
        **own,
        NAMESPACE_SETTING: pod.namespace,
        # Each executor is a pod that Spark itself replaces.
        "spark.kubernetes.allocation.pods.allocator": "direct",
        # Nothing in there that an executor needs.
        "spark.kubernetes.executor.disableConfigMap": "true",
        # It would take the place of what the template runs before a pod's end, and wait for tasks
        # that do not end.
        "spark.decommission.enabled": "false",
        # The watch does not say that a pod ended which was removed by force: the list does, which
        # Spark would ask for every 30 s.
        "spark.kubernetes.executor.apiPollingInterval": POLLED_EVERY,
        # A driver that gets no response ends, and its application is away until it starts anew.
        "spark.kubernetes.driver.connectionTimeout": str(round(1000 * TIMEOUT_S)),
        "spark.kubernetes.driver.requestTimeout": str(round(1000 * TIMEOUT_S)),
        "spark.executor.maxNumFailures": str(MOST_FAILURES),
        "spark.driver.host": pod.address,
        "spark.driver.bindAddress": pod.address,
        "spark.driver.port": str(DRIVER_PORT),
        "spark.blockManager.port": str(BLOCK_PORT),
        **AUTHENTICATED,
        SECRET_FILE_SETTING: str(pod.secret_file),
        "spark.executorEnv.VIVACE_SECRET_FILE": str(pod.secret_file),
        "spark.executor.extraJavaOptions": " ".join(f'"{option}"' for option in options),
    }


def own_namespace(account: Path = ACCOUNT) -> str:
    """The namespace of the pod that this process runs in.

    Raises
    ------
    InvalidInput
        It runs in none, or one without a token for the API.
    """
    try:
        return (account / "namespace").read_text("utf-8").strip()
    except OSError as error:
        raise InvalidInput(
            "environment",
            "sparkMaster",
            "k8s://",
            f"needs the token of a pod's service account ({account}: {error.strerror})",
            "Run the host pool in a pod whose service account may make pods.",
        ) from error


def former_drivers(
    master: str, pod: DriverPod, now: datetime, account: Path = ACCOUNT
) -> list[str]:
    """Other drivers' pods that still run, and own executors of the application; their names.

    One that should have been deleted by now is taken for lost with its machine.

    Raises
    ------
    Unreachable
        The API does not respond, or does not permit it.
    """
    api = _Api(master, account)
    owners = {
        (owner.name, owner.uid)
        for each in api.listed(_executors_path(pod)).items
        for owner in each.metadata.owner_references
        if owner.kind == "Pod" and owner.name != pod.name
    }
    found: list[str] = []
    for name, uid in sorted(owners):
        driver = api.pod(f"/api/v1/namespaces/{pod.namespace}/pods/{quote(name)}")
        if driver is not None and driver.metadata.uid == uid and driver.lives(now):
            found.append(name)
    return found


def remove_pods(master: str, pod: DriverPod, account: Path = ACCOUNT) -> list[str]:
    """Remove the pods that former lives of an application have left; their names.

    Whoever still runs there has lost its driver, and its name to a successor.

    Raises
    ------
    Unreachable
        The API does not respond, or does not permit it.
    """
    path, api = _executors_path(pod), _Api(master, account)
    names = [each.metadata.name for each in api.listed(path).items]
    if names:
        api.ask("DELETE", f"{path}&gracePeriodSeconds=0")
    return names


def _executors_path(pod: DriverPod) -> str:
    chosen = quote(",".join(f"{name}={value}" for name, value in pod.labels.items()))
    return f"/api/v1/namespaces/{pod.namespace}/pods?labelSelector={chosen}"


class _Owner(msgspec.Struct, rename="camel"):
    kind: str
    name: str
    uid: str


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    uid: str = ""
    deletion_timestamp: datetime | None = None
    owner_references: tuple[_Owner, ...] = ()


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    """What is read of a pod."""

    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)

    def lives(self, now: datetime) -> bool:
        """Whether its process may still run."""
        ends = self.metadata.deletion_timestamp
        return self.status.phase not in ENDED and (ends is None or now < ends)


class _Pods(msgspec.Struct):
    items: tuple[_Pod, ...] = ()


class _Refusal(msgspec.Struct):
    message: str = ""


class _Api:
    """The API of the cluster that a master's URL names."""

    def __init__(self, master: str, account: Path) -> None:
        address = master.partition("://")[2]
        # Spark takes an address without a scheme for one of HTTPS.
        self._url = urlsplit(address if "//" in address else f"https://{address}")
        self._account = account

    def listed(self, path: str) -> _Pods:
        """The pods that a path selects."""
        return self._as(_Pods, self.ask("GET", path))

    def pod(self, path: str) -> _Pod | None:
        """The pod at a path; None: there is none."""
        content = self.ask("GET", path, may_lack=True)
        return None if content is None else self._as(_Pod, content)

    def _as(self, kind: type[T], content: bytes | None) -> T:
        try:
            return msgspec.json.decode(content or b"", type=kind)
        except msgspec.DecodeError as error:
            raise self._unreachable(f"does not respond as Kubernetes does ({error})") from error

    def ask(self, method: str, path: str, *, may_lack: bool = False) -> bytes | None:
        """Send a request; what it says. None: there is no such thing, which `may_lack` allows."""
        try:
            token = (self._account / "token").read_text("utf-8").strip()
            connection = self._connection()
            try:
                headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
                connection.request(method, path, headers=headers)
                response = connection.getresponse()
                content = response.read()
            finally:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(
                f"does not respond ({error or type(error).__name__})"
            ) from error
        if may_lack and response.status == http.HTTPStatus.NOT_FOUND:
            return None
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            said = self._as(_Refusal, content)
            raise self._unreachable(f"refuses ({response.status}: {said.message})")
        return content

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        trusted = ssl.create_default_context(cafile=str(self._account / "ca.crt"))
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=trusted)

    def _unreachable(self, problem: str) -> Unreachable:
        remedy = "The pod's service account needs the rights of docs/processes.md#kubernetes."
        return Unreachable("Kubernetes", self._url.geturl(), problem, remedy)
