"""A platform as tests see it: the rig, or a real cluster."""

from __future__ import annotations

import io
import json
import secrets
import subprocess
import tarfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.platform.api import ENFORCE, is_ready
from tests.platform.kinds import NAMESPACE, NOTHING, POD, Kind, Object, name_of

PATIENCE_S = 240.0
LOOK_S = 0.1
SHOWN_LINES = 15

TAR_SAW_CHANGES = 1
"""Status of tar where a file grew while it was read."""

RESTRICTED: Mapping[str, str] = {ENFORCE: "restricted"}
"""Labels of a namespace whose pods must keep that profile."""


class Platform(ABC):
    """A namespace of a cluster.

    Attributes
    ----------
    kubeconfig
        A file with which kubectl and helm reach that namespace.
    """

    kubeconfig: Path

    @abstractmethod
    def list(self, kind: Kind, **labels: str) -> list[Object]:
        """All objects of a kind that have these labels."""

    @abstractmethod
    def put(self, given: Object) -> None:
        """Make an object, or replace it."""

    @abstractmethod
    def delete(self, kind: Kind, name: str, grace_s: int | None = None) -> None:
        """Delete an object."""

    @abstractmethod
    def log(self, pod: Object, container: str = "") -> str:
        """What a container has written; by default the last one."""

    @abstractmethod
    def copy(self, pod: Object, path: str, to: Path) -> None:
        """Copy a folder of a pod's first container into one of this machine."""

    def apply(self, text: str, **values: object) -> None:
        """Make the objects of YAML documents, or replace those that are there."""
        for given in yaml.safe_load_all(text.format(**values) if values else text):
            if given:
                self.put(given)

    def get(self, kind: Kind, name: str) -> Object:
        """An object that is there."""
        (found,) = (each for each in self.list(kind) if name_of(each) == name)
        return found

    def pods(self, **labels: str) -> list[Object]:
        """All pods that have these labels."""
        return self.list(POD, **labels)

    def ready(self, **labels: str) -> list[str]:
        """The names of those that serve."""
        return [name_of(pod) for pod in self.pods(**labels) if is_ready(pod)]

    def wait(
        self, condition: Callable[[], Any], what: str = "", timeout_s: float = PATIENCE_S
    ) -> Any:
        """Wait until a condition holds; what it says."""
        until = time.monotonic() + timeout_s
        while not (found := condition()):
            assert time.monotonic() < until, f"not within {timeout_s:g} s: {what}\n{self.tell()}"
            time.sleep(LOOK_S)
        return found

    def tell(self) -> str:
        """All pods with the ends of their logs."""
        lines: list[str] = []
        for pod in self.pods():
            status = pod.get("status") or NOTHING
            lines.append(f"-- {name_of(pod)} {status.get('phase')} {status.get('message', '')}")
            lines += self.log(pod).splitlines()[-SHOWN_LINES:]
        return "\n".join(lines)


class RealCluster(Platform):
    """A namespace of a cluster that kubectl reaches."""

    def __init__(self, kubectl: Path, kubeconfig: Path) -> None:
        self._kubectl = str(kubectl)
        self.kubeconfig = kubeconfig

    def list(self, kind: Kind, **labels: str) -> list[Object]:
        chosen = ",".join(f"{name}={value}" for name, value in labels.items())
        return json.loads(self.run("get", _of(kind), "--selector", chosen, "-o", "json"))["items"]

    def put(self, given: Object) -> None:
        self.run("apply", "--server-side", "--force-conflicts", "-f", "-", told=json.dumps(given))

    def delete(self, kind: Kind, name: str, grace_s: int | None = None) -> None:
        grace = [] if grace_s is None else [f"--grace-period={grace_s}"]
        self.run("delete", _of(kind), name, "--wait=false", *grace)

    def log(self, pod: Object, container: str = "") -> str:
        chosen = container or pod["spec"]["containers"][-1]["name"]
        done = self._ran("logs", name_of(pod), "--container", chosen)
        # One that has not begun to run has none.
        return done.stderr if done.returncode else done.stdout

    def copy(self, pod: Object, path: str, to: Path) -> None:
        command = [self._kubectl, "--kubeconfig", str(self.kubeconfig), "exec", name_of(pod)]
        command += ["--", "tar", "-cf", "-", "-C", path, "."]
        done = subprocess.run(command, check=False, capture_output=True)
        assert done.returncode in (0, TAR_SAW_CHANGES), done.stderr.decode()
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(to, filter="data")

    def run(self, *arguments: str, told: str | None = None) -> str:
        """Run kubectl; what it printed."""
        done = self._ran(*arguments, told=told)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def _ran(self, *arguments: str, told: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._kubectl, "--kubeconfig", str(self.kubeconfig), *arguments],
            input=told, capture_output=True, text=True, check=False,
        )  # fmt: skip


@contextmanager
def real_cluster(kubectl: Path, kubeconfig: Path, folder: Path) -> Generator[RealCluster]:
    """A namespace of its own in a cluster, for the time of a block.

    Parameters
    ----------
    kubeconfig
        Its current context must permit to make namespaces.
    folder
        For another one, which names the namespace.
    """
    whole, name = RealCluster(kubectl, kubeconfig), f"vivace-{secrets.token_hex(4)}"
    own = folder / "kubeconfig"
    own.touch(mode=0o600)
    own.write_text(whole.run("config", "view", "--raw", "--minify", "--flatten"))
    found = RealCluster(kubectl, own)
    metadata = {"name": name, "labels": dict(RESTRICTED)}
    whole.put({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    try:
        found.run("config", "set-context", "--current", f"--namespace={name}")
        yield found
    finally:
        whole.delete(NAMESPACE, name)


def _of(kind: Kind) -> str:
    """A kind, as kubectl knows it for sure."""
    return f"{kind.plural}.{kind.version}.{kind.group}" if kind.group else kind.plural
