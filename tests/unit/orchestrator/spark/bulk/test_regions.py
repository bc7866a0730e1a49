"""Labelling nodes by region, batch by batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from orchestrator.errors import InvalidInput
from orchestrator.spark.bulk.regions import LabelNodes

CENTRES = np.array([[0.0, 0.0], [100.0, 0.0]])


def test_batches_get_the_nearest_centre_and_keep_what_they_have() -> None:
    batches = [
        pa.RecordBatch.from_pydict(
            {"node": [5, 6], "x1": [1.0, 0.0], "x0": [90.0, 3.0], "error": [0.1, 0.2]}
        ),
        pa.RecordBatch.from_pydict({"node": [], "x0": [], "x1": [], "error": []}),
    ]
    (labelled,) = LabelNodes(centres_ms=CENTRES)(iter(batches))
    assert labelled.to_pydict() == batches[0].to_pydict() | {"region": [1, 0]}


def test_frame_without_axes_is_refused() -> None:
    batch = pa.RecordBatch.from_pydict({"node": [1], "y": [2.0]})
    with pytest.raises(InvalidInput, match="'node, y' have no axes"):
        list(LabelNodes(centres_ms=CENTRES)(iter([batch])))
