"""Host pools are given what they need to know of the Cluster manifest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.deploy.config import ProcessConfig, read_config
from orchestrator.deploy.local.members import Member
from orchestrator.embedded.java import Java
from orchestrator.host.shell.own_environment import own_machine
from orchestrator.manifest import ClusterManifest, load
from orchestrator.manifest.applications import applications_of
from orchestrator.records import FailureLabels, NodeKind


def config(folder: Path, manifest: ClusterManifest) -> ProcessConfig:
    return ProcessConfig(
        file=manifest.file,
        cluster=manifest.name,
        zookeeper="127.0.0.1:2181",
        secret="s",
        manifest=manifest,
        work=folder / "spark",
    )


def cluster(folder: Path, text: str) -> ClusterManifest:
    file = folder / "cluster.yaml"
    file.write_text(text)
    manifest = load([file]).cluster
    assert manifest is not None
    return manifest


def pool(folder: Path, manifest: ClusterManifest, number: int) -> ProcessConfig:
    """The configuration that the process of an application reads."""
    (folder / "secret").write_text("s")
    java, application = Java(home=folder, version=17), applications_of(manifest, {})[number - 1]
    secret = folder / "secret"
    made = Member.application(config(folder, manifest), application, secret, folder, java)
    file = folder / f"{made.name}.json"
    file.write_text(json.dumps(made.config))
    return read_config(file, {})


@pytest.mark.parametrize("number", [1, 2])
def test_each_of_two_applications_knows_its_nodes_and_labels_them(
    tmp_path: Path, number: int
) -> None:
    manifest = cluster(
        tmp_path,
        "kind: Cluster\nname: c\nnodes: [a, {name: b, region: x, domain: rack}, c]\n"
        "applications: 2\nexecutorMemory: 600m\n",
    )
    found = pool(tmp_path, manifest, number)
    application = found.own_application()
    assert [place.name for place in application.nodes] == [["a", "c"], ["b"]][number - 1]
    assert found.cluster_manifest().executor_memory_bytes == 600 * 2**20
    assert found.work_folder() == tmp_path / "spark" / f"application-{number}"
    labels = [
        found.host_spec(place, NodeKind.EXECUTOR, application).labels for place in application.nodes
    ]
    assert {each.application for each in labels} == {f"application-{number}"}
    assert [each.domain for each in labels] == [["", ""], ["rack"]][number - 1]


def test_the_host_pool_of_a_listed_application_knows_its_zone(tmp_path: Path) -> None:
    text = "kind: Cluster\nname: c\nnodes: [a, b]\n"
    text += "applications: [{name: east, nodes: [b], zone: z1}, {name: west, nodes: [a]}]\n"
    found = pool(tmp_path, cluster(tmp_path, text), 1)
    application = found.own_application()
    spec = found.host_spec(application.nodes[0], NodeKind.EXECUTOR, application)
    assert spec.node == "b"
    assert spec.labels == FailureLabels(application="east", zone="z1", driver=own_machine())
