"""Sites look at sources and sinks before anything is applied; errors name the manifest's place."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from orchestrator.api import edge_checks
from orchestrator.api.edge_checks import check_edges
from orchestrator.control.decide.admission import admit
from orchestrator.errors import EXIT_REFUSED, InvalidInput, Unreachable
from orchestrator.manifest import Manifests, load
from orchestrator.progress import silent
from orchestrator.store.protocol import CHECKS
from tests.obedient_cluster import ObedientCluster

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


def check(cluster: ObedientCluster, manifests: Manifests) -> None:
    view = cluster.view()
    flow = admit(view, manifests.streams, manifests.queries).flow
    check_edges(cluster.store, view, manifests, flow, silent)


def refused(cluster: ObedientCluster, manifests: Manifests) -> str:
    with pytest.raises(InvalidInput) as caught:
        check(cluster, manifests)
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
