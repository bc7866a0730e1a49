"""How far latencies may be off that follow from coordinates alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from placement.network import NetworkView

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Uncertainty:
    """Errors of estimated latencies in one view of the network."""

    def __init__(self, view: NetworkView) -> None:
        self._error_ms = np.array([node.error_ms for node in view.nodes], dtype=np.float64)
        self._size = len(view.nodes)
        ends = [
            sorted((view.index[source], view.index[target]))
            for source, target in view.rtt_ms
            if source in view.index and target in view.index
        ]
        self._measured = np.unique(
            np.array([low * self._size + high for low, high in ends], dtype=np.int64)
        )

    def between(self, nodes: IntArray) -> FloatArray:
        """Errors of both ends of every pair together, shape (nodes, nodes), ms.

        Zero where the latency was measured, and within a node.
        """
        errors_ms = self._error_ms[nodes][:, None] + self._error_ms[nodes]
        low = np.minimum(nodes[:, None], nodes)
        keys = low * self._size + np.maximum(nodes[:, None], nodes)
        errors_ms[np.isin(keys, self._measured)] = 0.0
        np.fill_diagonal(errors_ms, 0.0)
        return errors_ms
