"""Host pools are given what they need to know of the Cluster manifest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.deploy.config import ProcessConfig, read_config
from orchestrator.deploy.local.members import Member
from orchestrator.embedded.java import Java
from orchestrator.manifest import ClusterManifest, load
from orchestrator.records import NodeKind


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
    java = Java(home=folder, version=17)
    made = Member.application(config(folder, manifest), number, folder / "secret", folder, java)
    file = folder / f"{made.name}.json"
    file.write_text(json.dumps(made.config))
    return read_config(file, {})


@pytest.mark.parametrize("number", [1, 2])
def test_each_of_two_applications_knows_its_nodes_and_is_a_failure_domain(
    tmp_path: Path, number: int
) -> None:
    manifest = cluster(
        tmp_path,
        "kind: Cluster\nname: c\nnodes: [a, {name: b, region: x, domain: rack}, c]\n"
        "applications: 2\nexecutorMemory: 600m\n",
    )
    found = pool(tmp_path, manifest, number)
    nodes = found.application_nodes()
    assert [place.name for place in nodes] == [["a", "c"], ["b"]][number - 1]
    assert found.cluster_manifest().executor_memory_bytes == 600 * 2**20
    assert found.work_folder() == tmp_path / "spark" / f"application-{number}"
    specs = [found.host_spec(place, NodeKind.EXECUTOR, f"application-{number}") for place in nodes]
    (domain,) = {spec.domain for spec in specs}
    assert domain.startswith(f"application-{number}@")
    assert "rack" not in domain


def test_the_only_application_divides_its_nodes_by_their_domains(tmp_path: Path) -> None:
    text = "kind: Cluster\nname: c\nnodes: [a, {name: b, region: x, domain: rack}]\n"
    found = pool(tmp_path, cluster(tmp_path, text), 1)
    specs = [
        found.host_spec(place, NodeKind.EXECUTOR, "app") for place in found.application_nodes()
    ]
    assert [spec.domain.endswith("/rack") for spec in specs] == [False, True]
