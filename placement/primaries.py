"""Primaries: each operator goes to the node nearest to its point (reliable placement, §4.4).

The search is in coordinate space with the CPU axis, and that axis rises with every operator
placed, so the operators of a query that want the same spot spread over its neighbourhood.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from placement.errors import NoNode
from placement.evaluate import Places
from placement.graph import QueryGraph
from placement.load import Load
from placement.network import NetworkView

FloatArray = npt.NDArray[np.float64]


def place_primaries(
    graph: QueryGraph,
    points_ms: Mapping[str, FloatArray],
    view: NetworkView,
    load: Load,
    keep: Places,
) -> dict[str, str]:
    """Nearest node for every operator to be placed; pinned and kept ones stay.

    Parameters
    ----------
    points_ms
        Where relaxation puts the operators.
    load
        Without this query.
    keep
        Primaries that stay where they are.

    Returns
    -------
    dict
        Node of every operator of the graph, pinned ones included.

    Raises
    ------
    NoNode
        If no node runs operators.
    """
    places = {
        operator.name: operator.pinned
        for operator in graph.operators
        if operator.pinned is not None
    }
    places |= {name: keep[name] for name in graph.to_place if name in keep}
    load = load.with_copies(places[name] for name in graph.to_place if name in keep)
    for name in graph.to_place:
        if name in places:
            continue
        nearest = view.nearest(points_ms[name], load.cpu_ms())
        if not nearest:
            raise NoNode(graph.name, name, "the network has no node that runs operators")
        places[name] = nearest[0].name
        load = load.with_copies((places[name],))
    return places
