"""Where labels stand on a map: beside their markers, over no marker and no other label.

Greedy: the largest label chooses first, among eight directions and a few distances, the place that
covers least of markers and labels, then crosses the fewest lines, then is nearest.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
"""Shape (2,) or, a row each, (n, 2)."""

DIRECTIONS = ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1))
"""Above first."""

GAPS = (1.1, 2.0, 3.5, 5.0, 7.0)
"""Distances between marker's centre and label's edge, in radii of a marker."""

LINE_PER_GAP = 4
"""Samples of lines that a label may cross before it rather stands one distance further away."""


class Box(NamedTuple):
    """A rectangle along the axes."""

    left: float
    bottom: float
    right: float
    top: float

    @staticmethod
    def around(centre: Points, width: float, height: float) -> Box:
        """The rectangle of a size with its centre there."""
        x, y = centre
        return Box(x - width / 2, y - height / 2, x + width / 2, y + height / 2)

    def covers(self, other: Box) -> float:
        """Area of both."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(width, 0.0) * max(height, 0.0)

    def holds(self, points: Points) -> int:
        """How many of the points lie in it."""
        inside = (points > (self.left, self.bottom)) & (points < (self.right, self.top))
        return int(inside.all(axis=-1).sum())


def place_labels(
    spots: Points, sizes: Sequence[tuple[float, float]], radius: float, lines: Points, frame: Box
) -> list[Box]:
    """A place for each label.

    Parameters
    ----------
    spots
        Centres of the markers, shape (n, 2).
    sizes
        Width and height of each marker's label.
    radius
        Of markers.
    lines
        Samples of the lines on the map, shape (m, 2).
    frame
        The area that labels should not leave.
    """
    markers = [Box.around(spot, 2 * radius, 2 * radius) for spot in spots]
    placed: dict[int, Box] = {}
    for i in sorted(range(len(sizes)), key=lambda i: (-sizes[i][0] * sizes[i][1], i)):
        width, height = sizes[i]

        def cost(option: tuple[int, Box], area: float = width * height) -> tuple[float, float]:
            distance, box = option
            hidden = sum(box.covers(each) for each in (*markers, *placed.values()))
            outside = area - box.covers(frame)
            return round(hidden + outside, 3), box.holds(lines) + LINE_PER_GAP * distance

        options = [
            (distance, Box.around(spots[i] + np.multiply(to, (w, h)), width, height))
            for (distance, gap), to in product(enumerate(GAPS), DIRECTIONS)
            for w, h in [(width / 2 + gap * radius, height / 2 + gap * radius)]
        ]
        placed[i] = min(options, key=cost)[1]
    return [placed[i] for i in range(len(sizes))]
