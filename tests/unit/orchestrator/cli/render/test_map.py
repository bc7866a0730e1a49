from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orchestrator.api import CoordinateMap, Flow, Place
from orchestrator.cli.render.map import draw, project


def test_projection_keeps_distances_of_what_lies_in_a_plane() -> None:
    rng = np.random.default_rng(1)
    flat = rng.normal(size=(6, 2)) @ np.linalg.qr(rng.normal(size=(3, 3)))[0][:2] + 500
    shown = project(flat)
    for i in range(6):
        for j in range(6):
            assert np.linalg.norm(shown[i] - shown[j]) == pytest.approx(
                np.linalg.norm(flat[i] - flat[j])
            )


def test_projection_is_the_same_for_mirrored_coordinates_of_one_axis() -> None:
    points = np.array([[0.0, 0.0, 0.0], [10.0, 1.0, 0.0], [3.0, -4.0, 0.0]])
    shown = project(points)
    assert shown[np.abs(shown[:, 0]).argmax(), 0] > 0
    assert project(-points) == pytest.approx(project(points))


@pytest.mark.parametrize("count", [1, 2])
def test_few_hosts_can_be_projected(count: int) -> None:
    assert project(np.arange(3.0 * count).reshape(count, 3)).shape == (count, 2)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_map_is_drawn(tmp_path: Path, suffix: str) -> None:
    places = tuple(
        Place(name=name, position_ms=(x, y, 0.0), is_site=name == "receiver")
        for name, x, y in (("north", 0.0, 1.0), ("south", 9.0, -2.0), ("receiver", 4.0, 5.0))
    )
    drawn = CoordinateMap(
        title="t",
        places=places,
        primaries={"north": ["alerts"]},
        secondaries={"south": ["alerts"]},
        flows=(
            Flow(query="q", source="receiver", target="north", standby=False),
            Flow(query="q", source="receiver", target="south", standby=True),
        ),
    )
    file = tmp_path / f"map.{suffix}"
    draw(drawn, file)
    assert file.stat().st_size > 1000
