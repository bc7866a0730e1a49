from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from orchestrator.cli.render.labels import Box, Points, place_labels

FRAME = Box(0, 0, 1300, 800)
RADIUS = 13.0
NO_LINES = np.empty((0, 2))


def hidden(boxes: list[Box], spots: Points) -> float:
    """Area that labels cover of each other and of markers."""
    markers = [Box.around(spot, 2 * RADIUS, 2 * RADIUS) for spot in spots]
    each_other = sum(a.covers(b) for a, b in combinations(boxes, 2))
    return each_other + sum(box.covers(marker) for box in boxes for marker in markers)


def test_lone_label_stands_above_its_marker() -> None:
    (box,) = place_labels(np.array([[500.0, 400.0]]), [(100, 20)], RADIUS, NO_LINES, FRAME)
    assert (box.left + box.right) / 2 == 500
    assert box.bottom > 400 + RADIUS


def test_label_at_the_edge_stays_in_the_frame() -> None:
    spots = np.array([[20.0, 790.0]])
    (box,) = place_labels(spots, [(100, 20)], RADIUS, NO_LINES, FRAME)
    assert box.covers(FRAME) == pytest.approx(100 * 20)


def test_label_avoids_a_line() -> None:
    line = np.column_stack([np.full(50, 500.0), np.linspace(400, 800, 50)])
    (box,) = place_labels(np.array([[500.0, 400.0]]), [(100, 20)], RADIUS, line, FRAME)
    assert box.holds(line) == 0


def test_labels_of_markers_that_touch_cover_neither_markers_nor_each_other() -> None:
    spots = np.array([[500.0, 400.0], [508.0, 404.0], [500.0, 420.0]])
    boxes = place_labels(spots, [(120, 40), (90, 20), (110, 20)], RADIUS, NO_LINES, FRAME)
    assert hidden(boxes, spots) == 0


@pytest.mark.parametrize("seed", range(5))
def test_labels_of_twenty_hosts_cover_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spots = rng.uniform((100, 80), (1200, 720), (20, 2))
    sizes = [(float(width), 40.0) for width in rng.uniform(80, 200, 20)]
    boxes = place_labels(spots, sizes, RADIUS, NO_LINES, FRAME)
    assert hidden(boxes, spots) == 0
    assert boxes == place_labels(spots, sizes, RADIUS, NO_LINES, FRAME)
