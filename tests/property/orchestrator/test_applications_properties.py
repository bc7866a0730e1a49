"""Which application runs a node does not depend on other nodes, where manifests list them."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.manifest import load_texts
from orchestrator.manifest.applications import applications_of
from orchestrator.operations.texts import ManifestSource, NamedText

NODES = [f"n{number}" for number in range(8)]
APPLICATIONS = ["east", "north", "south", "west"]

runs_by_node = st.dictionaries(st.sampled_from(NODES), st.sampled_from(APPLICATIONS), min_size=1)


def spread(runs: dict[str, str]) -> dict[str, str]:
    """Node → the application that a manifest with these lists gives it."""
    listed = [
        {"name": each, "nodes": [node for node, run in runs.items() if run == each]}
        for each in dict.fromkeys(runs.values())
    ]
    document = {"kind": "Cluster", "name": "c", "nodes": [*runs], "applications": listed}
    text = NamedText(file="cluster.yaml", text=yaml.safe_dump(document))
    source = ManifestSource(path="cluster.yaml", files=(text,))
    manifest = load_texts([source]).cluster
    assert manifest is not None
    found = applications_of(manifest, {})
    return {node.name: each.name for each in found for node in each.nodes}


@given(runs_by_node, runs_by_node)
def test_nodes_and_applications_that_come_or_go_move_no_other_node(
    before: dict[str, str], changed: dict[str, str]
) -> None:
    """A manifest with some nodes more and some less; those that stay keep their application."""
    after = {node: before.get(node, run) for node, run in changed.items()}
    was, now = spread(before), spread(after)
    assert was == before
    assert now == after
    assert all(was[node] == now[node] for node in was.keys() & now.keys())
