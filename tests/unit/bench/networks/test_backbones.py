"""Real maps, turned into latencies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import topohub

from bench.networks.backbones import (
    FIBRE_MS_PER_KM,
    LEAST_LINK_KM,
    UnknownBackbone,
    backbone,
    backbone_graph,
    backbones,
)


def test_abilene_takes_as_long_as_its_fibre():
    matrix = backbone("topozoo/Abilene")
    assert len(matrix.names) == 11
    # The map's link from New York to Chicago is 1,146 km long.
    assert matrix.one_way_ms("New York", "Chicago") == pytest.approx(1146.16 * FIBRE_MS_PER_KM)
    assert matrix.one_way_ms("New York", "Seattle") > matrix.one_way_ms("New York", "Chicago")


def test_only_cities_of_a_continent_are_nodes():
    graph = backbone_graph("backbone/africa_nosc")
    matrix = backbone("backbone/africa_nosc")
    assert graph.is_connected()
    assert 0 < len(matrix.names) < len(graph.names) == 136


def shared_place() -> dict[str, Any]:
    """Two nodes of one name on one point, and one without a name."""
    nodes = [{"id": "7", "name": "Oslo", "pos": [10.0, 59.0]}]
    nodes += [{"id": "8", "name": "Oslo", "pos": [10.0, 59.0]}, {"id": "9", "pos": [11.0, 59.0]}]
    edges = [
        {"source": "7", "target": "8", "dist": 0.0},
        {"source": "8", "target": "9", "dist": 57.0},
    ]
    return {"nodes": nodes, "edges": edges}


def test_nodes_that_share_a_name_and_a_place_stay_apart(monkeypatch: pytest.MonkeyPatch):
    def get(key: str) -> dict[str, Any]:
        return shared_place()

    monkeypatch.setattr(topohub, "get", get)
    matrix = backbone("any")
    assert matrix.names == ("Oslo 7", "Oslo 8", "node 9")
    assert matrix.one_way_ms("Oslo 7", "Oslo 8") == LEAST_LINK_KM * FIBRE_MS_PER_KM


def test_an_unknown_map_is_answered_with_the_nearest():
    with pytest.raises(UnknownBackbone, match="'topozoo/Abilen'; did you mean topozoo/Abilene"):
        backbone("topozoo/Abilen")


@pytest.mark.parametrize("key", ["../data/topozoo/Abilene", "/etc/hostname"])
def test_a_key_does_not_lead_out_of_the_package(key: str):
    with pytest.raises(UnknownBackbone):
        backbone(key)


def test_all_maps_are_listed():
    keys = backbones()
    assert {"topozoo/Abilene", "sndlib/germany50", "backbone/world", "gabriel/25/0"} <= set(keys)
    assert np.all(np.array([key.count("/") for key in keys]) >= 1)
