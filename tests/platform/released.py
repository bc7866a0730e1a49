"""The aircraft example as a release of the chart on a rig, while it plays."""

from __future__ import annotations

import base64
import copy
import shutil
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import yaml

from examples import fetch
from orchestrator.control.observe.view import read_view
from orchestrator.embedded.java import Java
from orchestrator.embedded.packages import source_root
from tests.next_version import make_next_version
from tests.platform.client import PATIENCE_S
from tests.platform.cluster_pods import ClusterPods
from tests.platform.flights import Flights, expected_alerts, slowed
from tests.platform.helm import Helm
from tests.platform.kinds import SECRET, Object
from tests.platform.rig import Rig, restricted_rig
from tests.platform.tools import Tool

CHART = source_root() / "charts" / "vivace"

WAIT = ("--wait", "--timeout", "900s")

NEXT = "next"
"""Tag of the image whose wire and records are one step ahead."""

OWN: Mapping[str, Any] = {
    "zookeeper": {"replicas": 1, "antiAffinity": "none"},
    "web": {"replicas": 1},
    "turnSeconds": 120,
    "tests": {"drills": ["switchover"]},
    "pods": {"probes": {"periodSeconds": 2}},
}
"""In place of the chart's defaults: what one small machine can run."""

RECORDINGS = "recordings"


def component(name: str) -> dict[str, str]:
    """Labels of a component's pods."""
    return {"app.kubernetes.io/component": name}


class Release(ClusterPods):
    """A release of the chart, named `r`, with the example's values.

    Parameters
    ----------
    folder
        For values.
    """

    def __init__(self, rig: Rig, helm: Helm, folder: Path) -> None:
        example = yaml.safe_load((CHART / "examples" / "aircraft.yaml").read_text("utf-8"))
        self.values: dict[str, Any] = {**example, **copy.deepcopy(dict(OWN))}
        self.values["cluster"]["latencies"] = (fetch.DATA / "latency.csv").read_text("utf-8")
        manifests = self.values["queries"]["manifests"]
        manifests["streams.yaml"] = slowed(manifests["streams.yaml"])
        applications = {each["name"]: len(each["nodes"]) for each in example["applications"]}
        sites = [each["name"] for each in example["sites"]]
        super().__init__(rig, example["cluster"]["name"], applications, sites)
        self._helm = helm
        self._folder = folder

    @property
    def nodes(self) -> list[str]:
        return sorted(n["name"] for each in self.values["applications"] for n in each["nodes"])

    @property
    def zookeeper(self) -> str:
        return "r-vivace-zookeeper-0"

    @property
    def secret(self) -> str:
        return base64.b64decode(self.rig.get(SECRET, "r-vivace-secret")["data"]["secret"]).decode()

    def archive(self, site: str) -> Path:
        return self.rig.folder / "claims" / f"default_data-r-vivace-site-{site}-0" / "archive"

    def driver(self, application: str) -> Object:
        (pod,) = self.rig.pods(**component("driver"), **{"vivace-application": application})
        return pod

    def resize(self, number: int) -> None:
        """Give the first application so many nodes, in the values."""
        first = self.values["applications"][0]
        more = [{"name": "fourth", "region": first["nodes"][0]["region"]}]
        first["nodes"] = [*first["nodes"], *more][:number]

    def change(self, verb: str) -> subprocess.CompletedProcess[str]:
        """Install or upgrade with the values as they are now."""
        values = self._folder / "values.yaml"
        values.write_text(yaml.safe_dump(self.values), "utf-8")
        applications = self.values["applications"]
        self.applications = {each["name"]: len(each["nodes"]) for each in applications}
        return self.run(verb, "r", str(CHART), "-f", str(values), *WAIT)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run helm; fail unless it succeeds."""
        done = self._helm.run(*words)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{self.rig.tell()}"
        return done


@contextmanager
def released_flights(
    java: Java, tool: Tool, folder: Path, *, ahead: bool = False, nodes: int = 3
) -> Generator[tuple[Release, Flights]]:
    """The example, installed and playing.

    Parameters
    ----------
    ahead
        Whether there is an image of the next version, too.
    nodes
        Of the first application.
    """
    others: dict[str, Path] = {}
    if ahead:
        others[f"vivace:{NEXT}"] = made = make_next_version(folder / NEXT)
        _prepare(made)
    with restricted_rig(folder, java, others) as rig:
        claim: Object = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
        rig.put({**claim, "metadata": {"name": RECORDINGS}, "spec": spec})
        recordings = rig.folder / "claims" / f"default_{RECORDINGS}"
        recordings.mkdir(parents=True)
        for site in fetch.SITES:
            shutil.copy(fetch.DATA / f"aircraft-{site}.parquet", recordings)
        release = Release(rig, Helm(tool, rig, folder), folder)
        release.resize(nodes)
        alerts = sorted(expected_alerts())
        release.change("install")
        with closing(release):
            (query,) = yaml.safe_load_all(release.values["queries"]["manifests"]["query.yaml"])
            bound_ms = float(query["recovery"].removesuffix(" ms"))
            clocks = read_view(release.store).cluster_clocks
            playing = Flights(release, release.nodes, bound_ms, release.restarts(), alerts, clocks)
            playing.await_protected()
            rig.wait(lambda: playing.reached_ms() > 0, "outputs flow", 2 * PATIENCE_S)
            yield release, playing


def _prepare(product: Path) -> None:
    """Make of a copy what an image has made of the product: containers can write nothing there."""
    compiled = "import compileall, sys; compileall.compile_dir(sys.argv[1], quiet=1)"
    kernels = "from orchestrator.host.shell.kernels import main; main()"
    for code in (compiled, kernels):
        subprocess.run(
            [sys.executable, "-c", code, str(product)],
            check=True,
            cwd=product,
        )
