"""Which statements are split into a partial and a final one, and that a running query keeps it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from orchestrator.control.decide.proposing import plan_document
from orchestrator.control.observe.dataflow import Dataflow, InvalidQuery, dataflow
from orchestrator.edges.sources import spec_of
from orchestrator.edges.sources.replay import Replay
from orchestrator.errors import InvalidInput, Refused
from orchestrator.manifest import Manifests, QueryManifest, StreamManifest
from orchestrator.records import (
    Estimate,
    Partial,
    Rewrite,
    RewriteKind,
    RunningQueryRecord,
    StreamRecord,
)
from tests.decided import Decided
from tests.obedient_cluster import ObedientCluster, query_manifest

SLIDING = """\
REGISTER QUERY counted RSTREAM(SELECT id, count(*) AS number, sum(size) AS total
    FROM north [RANGE 2 SECONDS SLIDE 100 MILLISECONDS] GROUP BY id);
"""
OVER_A_UNION = (
    SLIDING.replace("FROM north [", "FROM both [")
    + """\
REGISTER QUERY both RSTREAM(
    SELECT id, size FROM north [NOW] UNION ALL SELECT id, size FROM south [NOW] WHERE size > 5);
"""
)
ROWS, KEYS_A_PANE = 200, 5
"""Of a pane of 100 ms; each pane has keys of its own."""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five seconds of few keys at a time, but many in a window."""
    numbers = range(50 * ROWS)
    rows = pa.Table.from_pydict(
        {
            "timestamp": [number * 100 // ROWS for number in numbers],
            "id": [f"{number // ROWS}-{number % KEYS_A_PANE}" for number in numbers],
            "size": list(numbers),
        }
    )
    path = tmp_path_factory.mktemp("recording") / "north.parquet"
    parquet.write_table(rows, path)
    return path


def manifests(
    recording: Path | None,
    partial: Partial = Partial.AUTO,
    statements: str = SLIDING,
    **changes: object,
) -> Manifests:
    source = None
    if recording is not None:
        source = spec_of("replay", Replay(path=str(recording), begin_ms=0, end_ms=4999))
    streams = [
        StreamRecord(
            name=name,
            site=f"{name}-receiver",
            columns={"id": "string", "size": "int"},
            rate_bytes_s=640_000,
            source=source,
        )
        for name in ("north", "south")
        if name in statements
    ]
    query = query_manifest(
        statements=statements,
        outputs={"counted": "south-receiver" if len(streams) == 1 else "control-centre"},
        deadline_ms=1000.0,
        recovery_bound_ms=2000.0,
    )
    record = msgspec.structs.replace(query.record, partial=partial, **changes)
    return Manifests(
        cluster=None,
        streams=tuple(StreamManifest(file="streams.yaml:1", record=each) for each in streams),
        queries=(msgspec.structs.replace(query, record=record),),
    )


def decided(given: Manifests, cluster: ObedientCluster | None = None) -> Decided:
    return Decided.of(given, cluster)


def split_of(found: Decided) -> Rewrite:
    (split,) = found.split("proximity")
    return split


def test_few_groups_a_pane_are_split_and_rows_no_longer_cross_the_wide_link(
    recording: Path,
) -> None:
    found = decided(manifests(recording))
    split = split_of(found)
    assert split.made, split.why
    assert "network usage" in split.why
    assert found.fragments == ["counted", "counted__partial"]
    assert found.running("proximity").trials.keys() == {"counted__partial", "counted"}
    document = plan_document(ObedientCluster().view(), found.admission)
    places = {each.fragment: each.primary for each in document.fragments}
    assert places["counted__partial"] in ("amsterdam", "frankfurt")
    assert places["counted"] == "lyon"
    assert document.rewrites == {"proximity": (split,)}


def test_sums_of_floats_are_priced_with_the_texts_that_they_travel_as(recording: Path) -> None:
    statements = SLIDING.replace("sum(size)", "stddev(size / 7)")
    found = decided(manifests(recording, Partial.ALWAYS, statements=statements))
    split = split_of(found)
    assert split.made, split.why
    assert "exact_squares(" in split.statements[0]
    width = found.running("proximity").trials["counted__partial"].row_bytes
    # Timestamp, key, two counts, and two texts that are longer than plans take texts to be.
    assert width is not None
    assert width > 8 + 16 + 8 + 8 + 16 + 16


def test_rows_that_are_fewer_than_groups_are_not_split(recording: Path) -> None:
    # With a key for each row, partial rows are as many as rows.
    statements = SLIDING.replace("GROUP BY id", "GROUP BY id, _ts, size")
    found = decided(manifests(recording, statements=statements))
    split = split_of(found)
    assert not split.made
    assert "network usage" in split.why
    assert found.fragments == ["counted"]


def test_groups_that_nobody_knows_are_not_split() -> None:
    found = decided(manifests(None))
    split = split_of(found)
    assert not split.made
    assert split.why == "the number of groups is not known: no recording of north"
    assert found.fragments == ["counted"]


def test_stated_estimates_are_of_the_whole_statement(recording: Path) -> None:
    stated = {"counted": Estimate(cost_us=5.0)}
    found = decided(manifests(recording, estimates=stated))
    split = split_of(found)
    assert not split.made
    assert split.why == "its estimates are stated for the whole statement"


def test_a_deadline_that_another_fragment_would_break_keeps_it_whole(recording: Path) -> None:
    for deadline_ms in range(20, 200, 4):
        try:
            split = split_of(decided(manifests(recording, deadline_ms=float(deadline_ms))))
        except Refused:
            continue
        if not split.made:
            assert split.why == "in two it cannot keep deadline and bound, or finds no room"
            return
    raise AssertionError("no deadline is short enough")


def test_owners_decide_otherwise(recording: Path) -> None:
    asked = decided(manifests(None, Partial.ALWAYS))
    assert asked.fragments == ["counted", "counted__partial"]
    never = decided(manifests(recording, Partial.NEVER))
    assert not never.split("proximity")
    assert never.fragments == ["counted"]


def test_a_running_query_keeps_what_was_decided(recording: Path) -> None:
    cluster = ObedientCluster()
    decided(manifests(recording), cluster).apply_to(cluster)
    cluster.settle()
    running = {found.record.fragment for found in cluster.view().fragments.values()}
    assert running == {"counted__partial", "counted"}
    again = decided(manifests(recording), cluster)
    assert not again.admission.placements
    assert split_of(again).made
    places = again.admission.plan.placements
    assert [each.operator for each in places] == ["counted__partial", "counted"]


def test_streams_of_two_sites_are_summed_up_where_they_come_from(recording: Path) -> None:
    found = decided(manifests(recording, statements=OVER_A_UNION))
    split = split_of(found)
    assert split.made, split.why
    assert split.without == ("both",)
    assert "split below both" in split.why
    assert set(found.fragments) == {
        *("counted__partial_1", "counted__partial_2", "counted__partial", "counted")
    }
    places = {each.operator: each.primary for each in found.admission.plan.placements}
    assert places["counted__partial_1"] in ("amsterdam", "frankfurt")
    assert places["counted__partial_2"] in ("lyon", "zurich")


def test_a_split_below_a_union_must_save_traffic_too(recording: Path) -> None:
    # With a key for each row, partial rows are as many as rows.
    statements = OVER_A_UNION.replace("GROUP BY id", "GROUP BY id, _ts, size")
    split = split_of(decided(manifests(recording, statements=statements)))
    assert not split.made
    assert "network usage" in split.why


def test_a_union_that_somebody_needs_is_made(recording: Path) -> None:
    both = {"both": "control-centre", "counted": "control-centre"}
    wanted = decided(manifests(recording, Partial.ALWAYS, OVER_A_UNION, outputs=both))
    assert set(wanted.fragments) == {"both", "counted__partial", "counted"}
    reader = "REGISTER QUERY other RSTREAM(SELECT id FROM both [NOW]);\n"
    read = decided(manifests(recording, Partial.ALWAYS, OVER_A_UNION + reader))
    assert set(read.fragments) == {"both", "other", "counted__partial", "counted"}


def test_a_union_that_is_not_made_cannot_be_read(recording: Path) -> None:
    found = decided(manifests(recording, Partial.ALWAYS, OVER_A_UNION))
    reader = query_manifest(
        name="reader",
        statements="REGISTER QUERY other RSTREAM(SELECT id FROM both [NOW]);",
        outputs={"other": "control-centre"},
    )
    with pytest.raises(InvalidQuery, match=r"'both' is not made.*`partial: never`") as refused:
        beside(found, reader)
    assert refused.value.query == "reader"
    taken = msgspec.structs.replace(
        reader.record, statements="REGISTER QUERY both RSTREAM(SELECT id FROM north [NOW]);"
    )
    with pytest.raises(InvalidQuery, match="is the name of query proximity already"):
        beside(found, msgspec.structs.replace(reader, record=taken))


def beside(found: Decided, other: QueryManifest) -> Dataflow:
    streams = {each.record.name: each.record for each in found.manifests.streams}
    queries = {each.record.name: each.record for each in (*found.manifests.queries, other)}
    return dataflow(streams, queries, found.admission.running)


def test_a_running_query_keeps_its_statements_as_they_were_written() -> None:
    # Another version wrote other names, and the sum in another way.
    written = (
        "REGISTER QUERY counted__partial RSTREAM(SELECT id AS a, count(*) AS b, sum(size) AS c "
        "FROM north [RANGE 50 MILLISECONDS SLIDE 50 MILLISECONDS] GROUP BY id);",
        "REGISTER QUERY counted RSTREAM(SELECT a AS id, sum(b) AS number, sum(c) AS total "
        "FROM counted__partial [RANGE 2 SECONDS SLIDE 100 MILLISECONDS] GROUP BY a);",
    )
    split = Rewrite(kind=RewriteKind.SPLIT, fragment="counted", why="asked for", statements=written)
    cluster = ObedientCluster()
    running = RunningQueryRecord(name="proximity", rewrites=(split,))
    cluster.apply(manifests(None), {"proximity": running})
    cluster.settle()
    assert decided(manifests(None), cluster).running("proximity") == running
    assert tuple(each.statement for each in cluster.view().dataflow.of("proximity")) == written


def test_names_of_partial_statements_are_nobodys() -> None:
    given = manifests(None, statements=SLIDING.replace("counted", "counted__partial"))
    with pytest.raises(InvalidInput, match="contains __partial"):
        decided(given)


def test_costs_and_places_may_be_stated_of_the_partial_statement(recording: Path) -> None:
    stated = {"counted__partial": Estimate(cost_us=5.0)}
    places = {"counted__partial": ("lyon",)}
    for partial in (Partial.ALWAYS, Partial.NEVER):
        found = decided(manifests(recording, partial, estimates=stated, primaries=places))
        assert len(found.fragments) == (2 if partial is Partial.ALWAYS else 1)
