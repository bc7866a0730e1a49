"""The rig: an API double of Kubernetes, its controllers, and pods as processes of this machine."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from orchestrator.embedded.java import Java
from orchestrator.embedded.packages import pyspark_folder, source_root
from tests.platform.access import Access
from tests.platform.api import Api, Sender
from tests.platform.certificate import Certificate
from tests.platform.client import RESTRICTED, Platform, real_cluster
from tests.platform.containers import this_machine
from tests.platform.controllers import Controllers
from tests.platform.defaults import fill_in
from tests.platform.http_server import ApiServer
from tests.platform.kinds import NAMESPACE, NODE, NOTHING, POD, Kind, Object, name_of
from tests.platform.kubelet import Kubelet
from tests.platform.names import Names
from tests.platform.network import Network, may_isolate, network
from tests.platform.objects import ApiError, Objects, kind_of
from tests.platform.pod_files import Surroundings
from tests.platform.policies import Policies
from tests.platform.schemas import VERSION
from tests.platform.tools import TOOLS

REAL = "PLATFORM_KUBECONFIG"
"""Variable that names a file with which kubectl reaches a real cluster."""

NODES = ("node-1", "node-2", "node-3")

HTTPS = 443

_admin = Sender(user="admin", manager="rig")

_kubeconfig = """\
apiVersion: v1
kind: Config
clusters: [{{name: rig, cluster: {{server: "{url}", certificate-authority: "{authority}"}}}}]
users: [{{name: admin, user: {{token: "{token}"}}}}]
contexts: [{{name: rig, context: {{cluster: rig, user: admin, namespace: default}}}}]
current-context: rig
"""


class Rig(Platform):
    """A platform, with the namespace `default`."""

    def __init__(self, folder: Path, made: Network, api: Api, access: Access) -> None:
        self.folder = folder
        self.network = made
        self.api = api
        self.objects = api.objects
        self.access = access
        self.policies = Policies(api.objects, made)
        self.kubelet = Kubelet(api.objects, made, self.policies)
        self.kubeconfig = folder / "kubeconfig"
        self.url = ""

    @property
    def isolated(self) -> bool:
        """Whether pods have addresses and files of their own."""
        return self.network.isolated

    def list(self, kind: Kind, **labels: str) -> list[Object]:
        place = "default" if kind.namespaced else ""
        return [
            each
            for each in self.objects.list(kind, place)
            if labels.items() <= (each["metadata"].get("labels") or NOTHING).items()
        ]

    def put(self, given: Object) -> None:
        kind = kind_of(given)
        place = given["metadata"].get("namespace", "default") if kind.namespaced else ""
        if self.objects.find(kind, place, name_of(given)) is None:
            self.api.create(kind, place, given, _admin)
            return
        given["metadata"].setdefault("namespace", place)
        content = "application/apply-patch+yaml"
        sender = Sender(user="admin", manager="rig", force=True)
        self.api.patch(kind, place, name_of(given), content, copy.deepcopy(given), sender)

    def delete(self, kind: Kind, name: str, grace_s: int | None = None) -> None:
        options: Object = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        self.api.delete(kind, "default", name, options, _admin)

    def evict(self, name: str, grace_s: int | None = None) -> None:
        """Evict a pod, as a drain of its node does."""
        options: Object = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        self.api.evict("default", name, options, _admin)

    def log(self, pod: Object, container: str = "") -> str:
        run = self.kubelet.run_of(pod)
        if run is None or not run.containers:
            return ""
        chosen = run.containers.get(container) or [*run.containers.values()][-1]
        return chosen.log.read_text("utf-8", errors="replace")

    def start(self, pod: Object, container: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a command in a container, by default the first one."""
        run, first = self.kubelet.run_of(pod), pod["spec"]["containers"][0]["name"]
        found = None if run is None else run.containers[container or first].container
        if found is None:
            raise ApiError(400, "BadRequest", f"{name_of(pod)} does not run")
        return found.start(command)

    def kill(self, name: str) -> None:
        """Kill all processes of a pod, as a crash of what runs it would."""
        run = self.kubelet.run_of(self.objects.get(POD, "default", name))
        assert run is not None, f"{name} does not run"
        for each in run.containers.values():
            each.crash()

    def terminate(self, name: str) -> None:
        """Ask the first processes of a pod's containers to end, as `kill` does."""
        run = self.kubelet.run_of(self.objects.get(POD, "default", name))
        assert run is not None, f"{name} does not run"
        for each in run.containers.values():
            each.terminate()

    def copy(self, pod: Object, path: str, to: Path) -> None:
        run, name = self.kubelet.run_of(pod), pod["spec"]["containers"][0]["name"]
        container = None if run is None else run.containers[name].container
        assert container is not None, f"{name_of(pod)} does not run"
        shutil.copytree(f"/proc/{container.first_pid}/root{path}", to, dirs_exist_ok=True)


@contextmanager
def rig(
    folder: Path, *, isolated: bool | None = None, version: str = VERSION,
    image: Mapping[str, str] = NOTHING, others: Mapping[str, Path] = NOTHING,
) -> Generator[Rig]:  # fmt: skip
    """A platform for the time of a block.

    Parameters
    ----------
    isolated
        Whether pods have namespaces; by default where they can be made.
    image
        Variables that all containers have.
    others
        Image → folder with the product that it holds in place of this one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        made = stack.enter_context(
            network(isolated=may_isolate() if isolated is None else isolated)
        )
        objects = Objects()
        access = Access(objects)
        api = Api(objects, version)
        found = Rig(folder, made, api, access)
        _begin(found)
        port = HTTPS if made.isolated else 0
        certificate = Certificate.make(folder, made.gateway)
        server = stack.enter_context(
            closing(ApiServer(made.gateway, api, access, found.log, found.start, certificate, port))
        )
        found.url = f"https://{made.gateway}:{server.port}"
        found.kubeconfig.write_text(
            _kubeconfig.format(url=found.url, authority=certificate.file, token=access.admin_token)
        )
        if made.isolated:
            stack.enter_context(closing(Names(objects, made.gateway)))
        controllers = Controllers(api)
        controllers.start()
        stack.callback(controllers.close)
        found.policies.start()
        stack.callback(found.policies.close)
        root = source_root()
        inherited = {name: os.environ[name] for name in ("LANG",) if name in os.environ}
        around = Surroundings(
            objects=objects,
            access=access,
            folder=folder,
            api=(made.gateway, server.port),
            authority=certificate.file,
            image={
                **inherited,
                "PATH": f"{os.environ['PATH']}:{root / 'orchestrator' / 'deploy'}",
                "HOME": "/tmp",
                "PYTHONPATH": str(root),
                **image,
            },
            entry_point=("vivace-container",),
            reachable=this_machine(root, *others.values()),
            pulled={name: {"PYTHONPATH": str(path)} for name, path in others.items()},
        )
        found.kubelet.start(around)
        stack.callback(found.kubelet.close)
        yield found


@contextmanager
def restricted_rig(
    folder: Path, java: Java, others: Mapping[str, Path] = NOTHING
) -> Generator[Rig]:
    """A rig whose pods must be restricted, and have all that the product's image has.

    Parameters
    ----------
    others
        Image → folder with the product that it holds in place of this one.
    """
    # What an installation has put beside Python may be an older one.
    folders = (source_root() / "orchestrator" / "deploy", Path(sys.prefix) / "bin")
    path = ":".join((*map(str, folders), os.environ["PATH"]))
    image = {"SPARK_HOME": str(pyspark_folder()), "JAVA_HOME": str(java.home), "PATH": path}
    with rig(folder / "rig", image=image, others=others) as made:
        metadata = {"name": "default", "labels": dict(RESTRICTED)}
        made.put({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        yield made


@contextmanager
def any_platform(folder: Path, java: Java) -> Generator[Platform]:
    """Such a rig; a namespace of a real cluster if `PLATFORM_KUBECONFIG` names one."""
    if given := os.environ.get(REAL):
        with real_cluster(TOOLS[-1].kubectl, Path(given), folder) as found:
            yield found
        return
    with restricted_rig(folder, java) as made:
        yield made


def _begin(made: Rig) -> None:
    """What a cluster has before anybody asks for something."""
    space: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
    made.api.create(NAMESPACE, "", space, _admin)
    for number, name in enumerate(NODES):
        zone = f"zone-{number % 2 + 1}"
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
        node: Object = {"metadata": {"name": name, "labels": labels}, "spec": {}}
        fill_in(NODE, node)
        made.objects.create(NODE, node)
