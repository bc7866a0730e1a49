"""Which nodes each Spark application of a cluster runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import InvalidInput
from orchestrator.manifest import ClusterManifest, load
from orchestrator.manifest.applications import Delays, nodes_of, spread

FAR_MS, NEAR_MS = 50.0, 1.0


def cluster(folder: Path, applications: int, *nodes: str) -> ClusterManifest:
    file = folder / "cluster.yaml"
    listed = ", ".join(nodes)
    file.write_text(f"kind: Cluster\nname: c\nnodes: [{listed}]\napplications: {applications}\n")
    manifest = load([file]).cluster
    assert manifest is not None
    return manifest


def delays(*near: tuple[str, str]) -> Delays:
    """Nodes are far apart, but for some pairs."""
    regions = {region for pair in near for region in pair} | {"a", "b", "c", "d", "e", "f"}
    close = {frozenset(pair) for pair in near}
    return {
        here: {
            there: NEAR_MS if frozenset((here, there)) in close else FAR_MS * (here != there)
            for there in sorted(regions)
        }
        for here in sorted(regions)
    }


def names(manifest: ClusterManifest, delays_ms: Delays) -> list[list[str]]:
    return [[place.name for place in nodes] for nodes in spread(manifest, delays_ms)]


def test_near_nodes_go_to_different_applications(tmp_path: Path) -> None:
    made = cluster(tmp_path, 2, "a", "b", "c", "d", "e", "f")
    found = names(made, delays(("a", "b"), ("c", "f"), ("d", "e")))
    assert found == [["a", "c", "d"], ["b", "e", "f"]]


def test_one_application_has_them_all_in_order(tmp_path: Path) -> None:
    assert names(cluster(tmp_path, 1, "b", "a", "c"), delays()) == [["b", "a", "c"]]


def test_an_odd_number_of_nodes_leaves_one_application_with_one_more(tmp_path: Path) -> None:
    found = names(cluster(tmp_path, 2, "a", "b", "c"), delays(("b", "c")))
    assert found == [["a", "b"], ["c"]]
    assert sum(map(len, names(cluster(tmp_path, 3, "a", "b", "c", "d"), {}))) == 4


def test_nodes_of_a_domain_stay_together(tmp_path: Path) -> None:
    rack = [f"{{name: {name}, region: {name}, domain: rack}}" for name in "ab"]
    made = cluster(tmp_path, 2, *rack, "c", "d")
    found = names(made, delays(("a", "c")))
    assert sorted(map(sorted, found)) == [["a", "b"], ["c", "d"]] or ["a", "b"] in [
        [name for name in each if name in "ab"] for each in found
    ]
    together = [set("ab") <= set(each) or not set("ab") & set(each) for each in found]
    assert all(together)


def test_more_applications_than_nodes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="leaves an application without a node"):
        cluster(tmp_path, 3, "a", "b")
    with pytest.raises(InvalidInput, match="Write 1 or fewer"):
        cluster(tmp_path, 2, *[f"{{name: {n}, region: {n}, domain: rack}}" for n in "ab"])


@pytest.mark.parametrize("number", [0, 3])
def test_an_application_that_there_is_not(tmp_path: Path, number: int) -> None:
    made = cluster(tmp_path, 2, "a", "b")
    assert [place.name for place in nodes_of(made, {}, 2)] == ["b"]
    with pytest.raises(InvalidInput, match="It has 2"):
        nodes_of(made, {}, number)
