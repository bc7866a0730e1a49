"""Regions of a million nodes' coordinates: centres are fitted to a sample, labels come from Spark.

Only the sample comes to the driver; each executor labels its own partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from foundation.arrays import FloatArray
from orchestrator.errors import InvalidInput
from orchestrator.spark.arrow_functions import map_in_arrow
from topology.regions import RegionsError, fit_centres, label

SAMPLE_NODES = 50_000
"""Nodes that centres are fitted to: hundreds per region, for any useful number of regions."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelNodes:
    """The function for `mapInArrow`: adds a column `region`."""

    centres_ms: FloatArray

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                axes = _axes(batch.schema.names)
                positions_ms = np.stack([batch.column(axis).to_numpy() for axis in axes], axis=1)
                labels = label(positions_ms, self.centres_ms)
                names = [*batch.schema.names, "region"]
                yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(labels)], names)


def label_regions(
    coordinates: DataFrame, count: int, *, seed: int, sample_nodes: int = SAMPLE_NODES
) -> tuple[FloatArray, DataFrame]:
    """Cluster nodes into at most `count` regions.

    Parameters
    ----------
    coordinates
        Columns `node` and `x0`, `x1`, …, as `FoundCoordinates.frame` has them.
    count
        Regions wanted.
    seed
        Of the random starts, and of the sample.
    sample_nodes
        Size of the sample at most.

    Returns
    -------
    centres_ms
        Shape (regions, d).
    labelled
        The frame with a column `region`: the row of its centre.

    Raises
    ------
    InvalidInput
        No coordinates, or fewer sampled nodes than regions.
    """
    axes = _axes(coordinates.columns)
    # The order of a hash is like a random one, and independent of the frame's partitions.
    chosen = coordinates.orderBy(sql.xxhash64("node", sql.lit(seed)), "node").limit(sample_nodes)
    rows = chosen.select(*axes).collect()
    try:
        centres_ms = fit_centres(np.array(rows, float).reshape(-1, len(axes)), count, seed=seed)
    except RegionsError as error:
        raise InvalidInput(
            "coordinates", "regions", count, f"cannot be had: {error}", "Ask for fewer."
        ) from error
    columns = ", ".join(
        f"`{field.name}` {field.dataType.simpleString()}" for field in coordinates.schema.fields
    )
    labelled = map_in_arrow(
        coordinates, LabelNodes(centres_ms=centres_ms), f"{columns}, region long"
    )
    return centres_ms, labelled


def _axes(columns: Sequence[str]) -> list[str]:
    axes = [name for name in columns if name[0] == "x" and name[1:].isdigit()]
    if not axes:
        raise InvalidInput(
            "coordinates", "columns", ", ".join(columns), "have no axes", "Name them x0, x1, …"
        )
    return sorted(axes, key=lambda name: int(name[1:]))
