"""Which nodes each Spark application of a cluster runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import InvalidInput
from orchestrator.manifest import ClusterManifest, load
from orchestrator.manifest.applications import Delays, applications_of

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
    return [[n.name for n in each.nodes] for each in applications_of(manifest, delays_ms)]


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


def listed(folder: Path, applications: str, nodes: str = "a, b, c") -> ClusterManifest:
    file = folder / "cluster.yaml"
    file.write_text(f"kind: Cluster\nname: c\nnodes: [{nodes}]\napplications: {applications}\n")
    manifest = load([file]).cluster
    assert manifest is not None
    return manifest


def test_applications_may_be_listed_with_their_nodes_and_zones(tmp_path: Path) -> None:
    made = listed(tmp_path, "[{name: east, nodes: [c, a], zone: z1}, {name: west, nodes: [b]}]")
    found = applications_of(made, {})
    assert [(each.name, each.zone) for each in found] == [("east", "z1"), ("west", "")]
    assert names(made, {}) == [["a", "c"], ["b"]]


def test_those_that_are_counted_have_numbers(tmp_path: Path) -> None:
    found = applications_of(cluster(tmp_path, 2, "a", "b"), {})
    assert [each.name for each in found] == ["application-1", "application-2"]


@pytest.mark.parametrize(
    ("applications", "message"),
    [
        ("[]", r"cluster.yaml:4: .*applications: .* leaves out a, b, c"),
        ("[east]", r"applications\[0\]: 'east' is not a mapping"),
        ("[{name: east}]", r"applications\[0\].nodes: is missing"),
        ("[{name: east, nodes: []}]", r"applications\[0\].nodes: .* names no node"),
        ("[{name: east, nodes: [a, b, d]}]", r"applications\[0\].nodes\[2\]: 'd' is no node of"),
        ("[{name: east, nodes: [a, b]}]", "leaves out c.*Name each node in one application"),
        (
            "[{name: e, nodes: [a, b]}, {name: w, nodes: [b, c]}]",
            r"applications\[1\].nodes\[0\]: 'b' is in application e already",
        ),
        (
            "[{name: e, nodes: [a, b]}, {name: e, nodes: [c]}]",
            r"applications\[1\].name: 'e' is the name of another one",
        ),
        ("[{name: web, nodes: [a, b, c]}]", "'web' is what another process is called"),
        ("[{name: site-1, nodes: [a, b, c]}]", "'site-1' is what another process is called"),
        ("[{name: e, nodes: [a, b, c], zone: Z 1}]", r"zone: 'Z 1' cannot be a name"),
        ("[{name: e, nodes: [a, b, c], rack: r}]", "rack: .*is an unknown field"),
    ],
)
def test_lists_that_do_not_run_each_node_once_are_refused(
    tmp_path: Path, applications: str, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        listed(tmp_path, applications)
