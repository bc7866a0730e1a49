"""The input of benchmark `ingest` is the same in every form."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from bench import ingest_workload as workload
from bench.ingest_latency import last_passing, waits_ms
from orchestrator.edges.sources.formats.formats import parse
from orchestrator.edges.sources.formats.row_form import Format, RowForm

FORM = RowForm(columns=workload.COLUMNS)


def test_forms_hold_the_same_tuples() -> None:
    rows = workload.batch(1000, 500)
    arrow = parse(FORM, Format.ARROW, workload.as_arrow(rows))
    assert arrow.equals(parse(FORM, Format.CSV, workload.as_csv(rows), header=False))
    documents = b"\n".join(workload.as_json(rows))
    assert arrow.equals(parse(FORM, Format.JSON, documents))
    assert pa.RecordBatch.from_arrays(arrow.columns[1:], schema=rows.schema).equals(rows)
    assert msgspec.json.decode(workload.as_json(rows)[0])["number"] == 1000


def test_waits_count_from_when_a_batch_was_due_until_its_last_passing_tuple_had_come() -> None:
    # The first 201 of 997 numbers do not pass.
    batches = [workload.batch(first, 100) for first in range(0, 400, 100)]
    lasts = last_passing(batches)
    assert lasts.tolist() == [-1, -1, 299, 399]
    due_us = np.arange(4) * 10_000
    arrived = [(250, 25_000), (320, 31_000), (399, 40_000)]
    assert waits_ms(arrived, due_us, lasts).tolist() == [11.0, 10.0]
