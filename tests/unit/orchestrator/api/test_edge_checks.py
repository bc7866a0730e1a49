"""Sites look at sources and sinks before anything is applied; errors name the manifest's place."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from orchestrator.api import edge_checks
from orchestrator.api.edge_checks import check_edges
from orchestrator.control.decide.admission import admit
from orchestrator.edges.events import Deliver
from orchestrator.edges.sinks.archive import Archive
from orchestrator.errors import EXIT_REFUSED, InvalidInput, Unreachable
from orchestrator.manifest import Manifests, load
from orchestrator.progress import silent
from orchestrator.records import (
    FragmentRecord,
    PlanFigures,
    ProposalRecord,
    QueryPlacement,
    ReplicaId,
    RunningQueryRecord,
    SavepointRecord,
    SinkAssignment,
    Timing,
)
from orchestrator.store.protocol import CHECKS, SAVEPOINTS
from tests.obedient_cluster import ObedientCluster
from tests.streams_of_numbers import chunk

MANIFESTS = """kind: Stream
name: north
sites: [north-receiver, south-receiver]
columns: {number: int}
rate: 1 KB/s
from:
  replay:
    begin: "1970-01-01T00:00:01Z"
    end: "1970-01-01T00:00:09Z"
    path: r.parquet
---
kind: Query
name: q
deadline: 1 s
recovery: 1 s
outputs:
  alerts: {site: control-centre}
  files:
    site: control-centre
    to:
      parquet:
        path: results
statements: |
  REGISTER QUERY alerts RSTREAM(SELECT number FROM north [NOW]);
  REGISTER QUERY files RSTREAM(SELECT number FROM north [NOW] WHERE number > 1);
"""


@pytest.fixture
def cluster(tmp_path: Path) -> ObedientCluster:
    return ObedientCluster(folder=tmp_path / "sites")


@pytest.fixture
def manifests(tmp_path: Path) -> Manifests:
    (tmp_path / "all.yaml").write_text(MANIFESTS)
    table = pa.Table.from_pydict({"timestamp": [1000, 2000], "number": [1, 2]})
    parquet.write_table(table, str(tmp_path / "r.parquet"))
    return load([tmp_path / "all.yaml"])


NEW = ProposalRecord(request=1)


def check(cluster: ObedientCluster, manifests: Manifests, proposal: ProposalRecord = NEW) -> None:
    view = cluster.view()
    flow = admit(view, manifests.streams, manifests.queries).flow
    check_edges(cluster.store, view, manifests, flow, proposal, silent)


def refused(cluster: ObedientCluster, manifests: Manifests, proposal: ProposalRecord = NEW) -> str:
    with pytest.raises(InvalidInput) as caught:
        check(cluster, manifests, proposal)
    assert caught.value.exit_status == EXIT_REFUSED
    return str(caught.value)


def test_what_can_be_opened_passes_and_no_record_stays(
    cluster: ObedientCluster, manifests: Manifests
) -> None:
    before = dict(cluster.server.entries)
    check(cluster, manifests)
    assert cluster.server.entries == before


def test_a_source_that_cannot_be_opened(
    cluster: ObedientCluster, manifests: Manifests, tmp_path: Path
) -> None:
    path = tmp_path / "r.parquet"
    path.unlink()
    before = dict(cluster.server.entries)
    said = refused(cluster, manifests)
    assert said.startswith(f"{tmp_path / 'all.yaml'}:10: Stream north: from.replay.path: '")
    assert "cannot be read: " in said
    # Each of its sites looks at it, and the first one is named.
    assert said.endswith("(looked at by site north-receiver). Correct the path, or the file.")
    assert cluster.server.entries == before
    assert cluster.store.list(CHECKS).records == {}


def going_on(generation: int) -> ProposalRecord:
    """The query goes on, in this generation, and its sinks know it by the number 7."""
    nowhere = ReplicaId(node="n1", incarnation="a")
    record = FragmentRecord(
        query="q",
        fragment="alerts",
        epoch=1,
        generation=generation,
        primary=nowhere,
        secondary=None,
        timing=Timing(cost_ms=1.0, sub_deadline_ms=100.0, standby_lag_ms=100.0),
        paused=True,
    )
    figures = PlanFigures(latency_ms=1.0, deadline_ms=1.0, recovery_ms=1.0, bound_ms=1.0)
    placed = QueryPlacement(query="q", updated=(), created=(record,), figures=figures)
    running = RunningQueryRecord(name="q", savepoint="before", life=7)
    return ProposalRecord(request=1, running=(running,), placements=(placed,))


def keep_results(folder: Path) -> None:
    """The sink has results of generation 9."""
    folder.mkdir(exist_ok=True)
    assigned = SinkAssignment(
        stream="alerts", columns={"number": "int"}, deadline_ms=1000.0, life=7
    )
    archive = Archive().open(assigned, folder)
    part = chunk(0, [(10, 1)])
    archive.keep(Deliver(stream="alerts", epoch=9, generation=9, chunk=part, lost=0, arrived_us=1))
    archive.flush()
    archive.close()


def test_a_sink_that_has_results_of_a_later_beginning(
    cluster: ObedientCluster, manifests: Manifests, tmp_path: Path
) -> None:
    keep_results(tmp_path / "sites")
    check(cluster, manifests, going_on(9))
    check(cluster, manifests, NEW)
    said = refused(cluster, manifests, going_on(5))
    assert "Query q: outputs.alerts: has results of a later beginning (generation 9)" in said
    assert "--from now" in said


def test_a_sink_that_has_results_to_which_the_savepoint_does_not_lead(
    cluster: ObedientCluster, manifests: Manifests, tmp_path: Path
) -> None:
    keep_results(tmp_path / "sites")
    kept = SavepointRecord(name="before", asked_us=1, departed={"q": "it was changed"})
    cluster.store.create(SAVEPOINTS.key("before"), kept)
    check(cluster, manifests, NEW)
    said = refused(cluster, manifests, going_on(9))
    assert "outputs.alerts: has results to which savepoint before does not lead" in said
    assert "since it was changed after it: what follows would have their numbers" in said
    shutil.rmtree(tmp_path / "sites")
    check(cluster, manifests, going_on(9))


def test_a_sink_that_cannot_be_written(
    cluster: ObedientCluster, manifests: Manifests, tmp_path: Path
) -> None:
    (tmp_path / "results").write_text("")
    said = refused(cluster, manifests)
    place = f"{tmp_path / 'all.yaml'}:22: Query q: outputs.files.to.parquet.path: "
    assert said.startswith(place)


def test_an_output_without_a_sink_of_its_own_needs_the_site_s_folder(
    cluster: ObedientCluster, manifests: Manifests, tmp_path: Path
) -> None:
    (tmp_path / "sites").write_text("")
    said = refused(cluster, manifests)
    assert "all.yaml:17: Query q: outputs.alerts: needs the site's folder" in said


def test_what_runs_is_not_looked_at_again(
    cluster: ObedientCluster, manifests: Manifests, tmp_path: Path
) -> None:
    cluster.apply(manifests)
    (tmp_path / "r.parquet").unlink()
    (tmp_path / "results").write_text("")
    check(cluster, manifests)


def test_a_site_that_does_not_respond_is_named(
    cluster: ObedientCluster, manifests: Manifests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_checks, "TIMEOUT_S", 0.0)
    monkeypatch.setattr(edge_checks, "LOOK_EVERY_S", 0.001)
    cluster.hosts["south-receiver"].checks.cancel()
    with pytest.raises(Unreachable, match="at south-receiver did not end within 0 s"):
        check(cluster, manifests)
    assert cluster.store.list(CHECKS).records == {}
