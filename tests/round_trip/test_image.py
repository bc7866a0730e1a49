"""The image that `make image` has built runs: ZooKeeper, a coordinator, sites, and a driver with
two executors, each a container of an unknown user with a read-only root and no rights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bench.cluster import await_end
from orchestrator.api import Cluster, apply
from orchestrator.control.observe.view import read_view
from orchestrator.control.planning.task import settled
from orchestrator.deploy.config import read_config
from orchestrator.embedded.child_process import ChildProcess
from orchestrator.embedded.ports import free_port
from orchestrator.manifest import load
from scripts import image
from tests.conftest import WaitUntil
from tests.round_trip.conftest import Say
from tests.round_trip.image_containers import run, volume
from tests.round_trip.kills import await_view
from tests.round_trip.test_machines import check_rows, expected, write_query
from tests.round_trip.test_standalone import open_when_served

pytestmark = [
    pytest.mark.round_trip,
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

LENGTH_S = 30

FILES = {
    "cluster.yaml": "kind: Cluster\nname: contained\nnodes: [one, two]\nsites: [source, sink]\n"
    "executorMemory: 512m\n",
    "zoo.cfg": "tickTime=500\ndataDir=/data/zookeeper\nclientPortAddress=127.0.0.1\n"
    "clientPort={port}\nadmin.enableServer=false\n",
    "vivace.yaml": "manifest: cluster.yaml\nzookeeper: 127.0.0.1:{port}\nsecretFile: secret\n",
    "secret": "of the containers\n",
}


@pytest.fixture
def contained(tmp_path: Path) -> Iterator[Path]:
    """A folder with the configuration of containers that run."""
    if image.missing() or not image.has(image.IMAGE):
        pytest.skip(f"`make image` has built none: that {image.missing() or 'was not called'}")
    write_query(tmp_path, repeat=False, length_s=LENGTH_S)
    port = free_port()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text.format(port=port))
    tmp_path.chmod(0o755)
    container = image.buildah("from", image.IMAGE)
    root = Path(image.buildah("mount", container))
    own = json.loads(image.buildah("inspect", container))["OCIv1"]["config"]["Env"]
    base = dict(each.split("=", 1) for each in own)
    base |= {"VIVACE_CONFIG": f"{tmp_path}/vivace.yaml"}
    started: list[ChildProcess] = []

    def start(name: str, *command: str, **more: str) -> None:
        mounts = {
            "/data": (volume(tmp_path / f"volume-{name}"), True),
            "/etc/zookeeper/zoo.cfg": (tmp_path / "zoo.cfg", False),
            **{f"{tmp_path}/{each.name}": (each, False) for each in files},
        }
        started.append(run(tmp_path, root, name, command, {**base, **more}, mounts))

    files = [*tmp_path.glob("*.*"), tmp_path / "secret"]
    try:
        start("zookeeper-0", "zookeeper", HOSTNAME="zookeeper-0")
        start("coordinator", "coordinator")
        for site in ("source", "sink"):
            start(site, "site", VIVACE_SITE=site, VIVACE_ARCHIVE="/data/archive")
        start("driver", "driver", VIVACE_WORK="/data/spark", VIVACE_GRACE="0")
        yield tmp_path
    finally:
        for each in reversed(started):
            each.stop(20.0)
        image.buildah("rm", container)


def test_all_components_run_in_containers_without_rights(
    contained: Path, say: Say, wait_until: WaitUntil
) -> None:
    config = read_config(contained / "vivace.yaml", {})
    with closing(open_when_served(config, wait_until)) as store:
        await_view(store, "there", "one", "two", "source", "sink")
        wait_until(lambda: settled(read_view(store).hosts))
        manifests = load([contained / "query.yaml"])
        apply(Cluster(config, store), manifests, on_progress=say)
        await_end(store, manifests, say)
    check_rows(contained / "volume-sink" / "archive", expected(LENGTH_S))
