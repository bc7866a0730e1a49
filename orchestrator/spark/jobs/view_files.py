"""A network as files, for executors to read: what a `NetworkView` consists of, as Parquet.

Only what is given is written; trees and indices are made anew where it is read. Numbers come back
as they were, bit by bit, and nodes in their order, so that whatever is decided on the copy is what
would have been decided on the original.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from placement.network import NetworkView, Node

NODES, ROUND_TRIPS = "nodes.parquet", "round-trips.parquet"

_plain = [one.name for one in fields(Node) if one.name != "position_ms"]
"""Attributes of a node that are one value each."""


def write_view(folder: Path, view: NetworkView) -> None:
    """Write a network into a folder, which is made."""
    folder.mkdir(parents=True)
    columns = {name: [getattr(node, name) for node in view.nodes] for name in _plain}
    columns["position_ms"] = [node.position_ms.tolist() for node in view.nodes]
    pq.write_table(pa.Table.from_pydict(columns), folder / NODES)
    pairs = list(view.rtt_ms)
    trips = {
        "source": np.array([view.index.get(source, -1) for source, _ in pairs], dtype=np.int64),
        "target": np.array([view.index.get(target, -1) for _, target in pairs], dtype=np.int64),
        "rtt_ms": np.array(list(view.rtt_ms.values()), dtype=np.float64),
    }
    # Pairs of nodes that there are not count for nothing.
    known = (trips["source"] >= 0) & (trips["target"] >= 0)
    table = pa.Table.from_pydict({name: column[known] for name, column in trips.items()})
    pq.write_table(table, folder / ROUND_TRIPS)


def read_view(folder: Path) -> NetworkView:
    """The network that was written there."""
    nodes: tuple[Node, ...] = tuple(_node(row) for row in pq.read_table(folder / NODES).to_pylist())
    trips = pq.read_table(folder / ROUND_TRIPS)
    sources: list[int] = trips.column(0).to_pylist()
    targets: list[int] = trips.column(1).to_pylist()
    rtt_ms: list[float] = trips.column(2).to_pylist()
    return NetworkView(
        nodes=nodes,
        rtt_ms={
            (nodes[source].name, nodes[target].name): sample_ms
            for source, target, sample_ms in zip(sources, targets, rtt_ms, strict=True)
        },
    )


def _node(row: dict[str, Any]) -> Node:
    given: dict[str, Any] = {**row, "position_ms": np.array(row["position_ms"], dtype=np.float64)}
    return Node(**given)
