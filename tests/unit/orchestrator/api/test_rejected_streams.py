"""Streams of the tuples that statements reject: who has them, and how they are placed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from orchestrator.control.observe.dataflow import Dataflow, InvalidQuery, dataflow
from orchestrator.control.planning.split_ways import ways_to_split
from orchestrator.manifest import Manifests, QueryManifest, StreamManifest
from orchestrator.records import OnError, StreamRecord
from streams.plan.program import REJECTED_COLUMNS
from tests.decided import Decided
from tests.obedient_cluster import ObedientCluster, query_manifest

STREAM = StreamRecord(
    name="north",
    site="north-receiver",
    columns={"id": "string", "x": "float"},
    rate_bytes_s=12_800.0,
)
STATEMENTS = """\
REGISTER QUERY some RSTREAM(SELECT id, x FROM north [NOW] WHERE x >= 50);
REGISTER QUERY sums RSTREAM(
  SELECT id, count(*) AS n FROM some [RANGE 10 SECONDS SLIDE 100 MILLISECONDS] GROUP BY id);
"""


def query(name: str, statements: str, outputs: tuple[str, ...], **fields: Any) -> QueryManifest:
    made = query_manifest(name, statements, outputs=dict.fromkeys(outputs, "control-centre"))
    return msgspec.structs.replace(made, record=msgspec.structs.replace(made.record, **fields))


def skipping(on_error: OnError = OnError.SKIP) -> QueryManifest:
    return query("q", STATEMENTS, ("sums", "some.rejected"), on_error=on_error)


def flow_of(*queries: QueryManifest) -> Dataflow:
    return dataflow({"north": STREAM}, {each.record.name: each.record for each in queries})


def test_an_output_asks_for_the_tuples_that_a_statement_rejects() -> None:
    flow = flow_of(skipping())
    assert {each.key: each.rejected for each in flow.of("q")} == {
        "q.some": False,
        "q.some.rejected": True,
        "q.sums": False,
    }
    rejected, some = flow.fragments["some.rejected"], flow.fragments["some"]
    assert (rejected.statement, rejected.inputs) == (some.statement, some.inputs)
    assert rejected.columns == flow.columns["some.rejected"] == REJECTED_COLUMNS


def test_other_queries_read_them_in_any_order() -> None:
    statement = (
        "REGISTER QUERY faults ISTREAM(SELECT count(*) AS n FROM some.rejected [UNBOUNDED]);"
    )
    reading = query("a", statement, ("faults",))
    assert flow_of(reading, skipping()).fragments["faults"].columns == {"n": "int"}


def test_a_query_that_stops_has_none() -> None:
    with pytest.raises(InvalidQuery, match="is made only if tuples are left out") as raised:
        flow_of(skipping(OnError.STOP))
    assert (raised.value.field, raised.value.value) == ("outputs", "some.rejected")
    assert raised.value.remedy == "Write `onError: skip`."


def test_they_are_tried_and_placed_as_all_fragments_are() -> None:
    cluster = ObedientCluster()
    given = Manifests(
        cluster=None,
        streams=(StreamManifest(file="streams.yaml:1", record=STREAM),),
        queries=(skipping(),),
    )
    found = Decided.of(given, cluster)
    (running,) = found.admission.running.values()
    assert running.trials["some.rejected"].selectivity == 0.0
    assert "some.rejected" in {each.operator for each in found.admission.plan.placements}


def test_what_skips_is_not_split() -> None:
    record = skipping().record
    assert ways_to_split(flow_of(skipping()), record) == {}
    record = msgspec.structs.replace(
        record, outputs={"sums": "control-centre"}, on_error=OnError.STOP
    )
    assert ways_to_split(dataflow({"north": STREAM}, {"q": record}), record)
