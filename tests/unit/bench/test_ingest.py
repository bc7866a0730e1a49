"""The input of benchmark `ingest` is the same in every form."""

from __future__ import annotations

import msgspec
import pyarrow as pa

from bench import ingest_workload as workload
from orchestrator.sources.formats import Format, RowForm, parse

FORM = RowForm(columns=workload.COLUMNS)


def test_forms_hold_the_same_tuples() -> None:
    rows = workload.batch(1000, 500)
    arrow = parse(FORM, Format.ARROW, workload.as_arrow(rows))
    assert arrow.equals(parse(FORM, Format.CSV, workload.as_csv(rows), header=False))
    documents = b"\n".join(workload.as_json(rows))
    assert arrow.equals(parse(FORM, Format.JSON, documents))
    assert pa.RecordBatch.from_arrays(arrow.columns[1:], schema=rows.schema).equals(rows)
    assert msgspec.json.decode(workload.as_json(rows)[0])["number"] == 1000
