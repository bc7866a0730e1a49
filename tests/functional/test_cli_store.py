"""The real command against a real ZooKeeper, with hosts that only exist on paper."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.render.status import NO_FIGURES
from orchestrator.clock import now_us
from orchestrator.control.process import Coordination
from orchestrator.embedded.zookeeper import EmbeddedZooKeeper
from orchestrator.store.protocol import (
    CLUSTER,
    FIGURES,
    LEADER,
    QUERIES,
    STREAMS,
)
from orchestrator.store.zookeeper import ZooKeeperStore
from tests.conftest import WaitUntil
from tests.functional.paper_cluster import MANIFESTS, places, run_fragment

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]

Vivace = Callable[..., "subprocess.CompletedProcess[str]"]
Pretend = Callable[[str, str], None]


def test_apply_dry_run_changes_nothing(
    store: ZooKeeperStore, vivace: Vivace, manifests: Path
) -> None:
    done = vivace("apply", "-f", manifests, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "+ query  high      would be new" in done.stdout
    assert "high.high_ones" in done.stdout
    assert store.list(QUERIES).records == {}
    assert store.list(STREAMS).records == {}


def test_apply_writes_once(store: ZooKeeperStore, vivace_here: Vivace, manifests: Path) -> None:
    first = json.loads(vivace_here("apply", "-f", manifests, "--no-wait", "--json").stdout)
    assert [change["effect"] for change in first["changes"]] == ["new", "new"]
    assert not first["protected"]
    (placed,) = first["plan"]["fragments"]
    assert placed["primary"] != placed["secondary"]
    assert placed["recovery_ms"] <= placed["bound_ms"] == 300
    again = json.loads(vivace_here("apply", "-f", manifests, "--no-wait", "--json").stdout)
    assert [change["effect"] for change in again["changes"]] == ["unchanged", "unchanged"]
    assert store.list(QUERIES).records["high"].version == 0
    subjects = [each.event.subject for each in store.history() if each.event.kind != "asked"]
    assert subjects == ["stream positions", "query high"]


def test_apply_waits_for_what_runs_already(
    store: ZooKeeperStore, vivace_here: Vivace, manifests: Path
) -> None:
    vivace_here("apply", "-f", manifests, "--no-wait")
    run_fragment(store)
    done = vivace_here("apply", "-f", manifests)
    assert done.returncode == 0, done.stderr
    assert "✓ Every fragment runs, with a warm standby." in done.stdout


def test_apply_refuses_what_it_cannot_have(
    store: ZooKeeperStore, vivace_here: Vivace, manifests: Path
) -> None:
    manifests.write_text(MANIFESTS.replace("recovery: 300 ms", "recovery: 3 ms"))
    done = vivace_here("apply", "-f", manifests)
    assert done.returncode == 2
    assert "query high" in done.stderr
    assert "recovery '3 ms': no node can stand by" in done.stderr
    error = json.loads(vivace_here("apply", "-f", manifests, "--json").stdout)["error"]
    assert error["type"] == "Refused"
    assert error["figures"]["bound_ms"] == 3
    assert store.list(STREAMS).records == {}


def test_apply_changes_a_query_that_runs_in_place(
    store: ZooKeeperStore, vivace_here: Vivace, manifests: Path
) -> None:
    done = vivace_here("apply", "-f", manifests, "--no-wait")
    assert done.returncode == 0, done.stderr
    run_fragment(store)
    manifests.write_text(MANIFESTS.replace("deadline: 300 ms", "deadline: 400 ms"))
    done = vivace_here("apply", "-f", manifests, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "~ query  high      would be changed" in done.stdout
    assert "300 ms → 400 ms" in done.stdout
    assert store.list(QUERIES).records["high"].record.deadline_ms == 300
    done = vivace_here("apply", "-f", manifests, "--no-wait")
    assert done.returncode == 0, done.stderr
    assert store.list(QUERIES).records["high"].record.deadline_ms == 400


def test_apply_refuses_the_manifest_of_another_cluster(
    store: ZooKeeperStore, vivace_here: Vivace, tmp_path: Path
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("kind: Cluster\nname: other\nnodes: [Paris, Lyon]\n")
    done = vivace_here("apply", "-f", file)
    assert done.returncode == 2
    assert "'other' is not the cluster that runs here" in done.stderr


def test_plan_of_candidates_with_a_map(
    store: ZooKeeperStore, vivace_here: Vivace, manifests: Path, tmp_path: Path
) -> None:
    picture = tmp_path / "map.png"
    done = vivace_here("plan", "-f", manifests, "--map", picture, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["queries"][0]["latency_ms"] <= document["queries"][0]["deadline_ms"]
    assert not document["fragments"][0]["runs"]
    assert document["map"] == str(picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert vivace_here("plan", "--map", tmp_path / "map.txt").returncode == 2
    assert "No query runs here" in vivace_here("plan").stdout


def test_status_of_a_running_query(
    store: ZooKeeperStore, vivace_here: Vivace, manifests: Path
) -> None:
    vivace_here("apply", "-f", manifests, "--no-wait")
    run_fragment(store)
    store.delete(LEADER, 0)
    document = json.loads(vivace_here("status", "--json").stdout)
    assert [node["node"] for node in document["nodes"]] == sorted(places)
    (fragment,) = document["fragments"]
    assert (fragment["epoch"], fragment["secondary_state"], fragment["redundant"]) == (
        3,
        "warm",
        True,
    )
    (output,) = document["outputs"]
    assert (output["rows"], output["latency_ms_p99"], output["lost"]) == (7, 41.5, 0)
    shown = vivace_here("status").stdout
    assert "; nothing has entered: positions" in shown.splitlines()[0]
    assert "✓ every fragment has a warm standby" not in shown
    assert "14.29 %" in shown
    assert "80.0 ms" in shown
    assert "takeovers (2)" in shown
    assert "messages_sent" not in shown
    told = vivace_here("metrics").stdout.splitlines()
    labels = 'query="high",site="desk",stream="high_ones"'
    assert f"vivace_output_tuples_total{{{labels}}} 7.0" in told
    assert 'vivace_host_events_total{event="takeovers",node="desk"} 2.0' in told
    sampled = json.loads(vivace_here("metrics", "--json").stdout)["metrics"]
    assert {"name": "vivace_fragment_epoch", "value": 3} in [
        {key: each[key] for key in ("name", "value")} for each in sampled
    ]


def test_status_shows_the_figures_of_the_leader_that_leads(
    store: ZooKeeperStore,
    vivace_here: Vivace,
    manifests: Path,
    zookeeper: EmbeddedZooKeeper,
    wait_until: WaitUntil,
) -> None:
    vivace_here("apply", "-f", manifests, "--no-wait")
    run_fragment(store)
    assert NO_FIGURES in vivace_here("status").stdout
    cluster = store.get(CLUSTER)
    assert cluster is not None
    store.delete(LEADER, 0)
    session = ZooKeeperStore(zookeeper.connect_string, cluster.record.name, "secret")
    leader = Coordination(session, "coordinator-1")

    def has_published() -> bool:
        # A step may meet what the fixture's leader writes: it reads again, and publishes later.
        leader.run_once(now_us())
        return store.list(FIGURES).records.keys() == {"high"}

    wait_until(has_published)

    def status() -> Any:
        return json.loads(vivace_here("status", "--json").stdout)

    # What is shown may be a fraction of a second old.
    wait_until(lambda: status()["figures_age_s"] is not None)
    document = status()
    assert document["figures_age_s"] >= 0
    (query,) = document["queries"]
    assert (query["query"], query["deadline_ms"], query["path"][-1]) == (
        *("high", 300.0, "high_ones at desk @ desk"),
    )
    assert [each["fragment"] for each in document["costs"]] == ["high_ones"]
    (fragment,) = document["fragments"]
    plan = fragment["plan"]
    assert (plan["primary"], plan["secondary"]) == (fragment["primary"], fragment["secondary"])
    shown = vivace_here("status").stdout
    assert "latency / deadline" in shown
    assert NO_FIGURES not in shown
    session.close()
    wait_until(lambda: status()["figures_age_s"] is None)


def test_cordon_and_dry_runs_of_moves(
    store: ZooKeeperStore, vivace_here: Vivace, manifests: Path
) -> None:
    vivace_here("apply", "-f", manifests, "--no-wait")
    run_fragment(store)
    done = vivace_here("switchover", "high_ones", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "paris → lyon" in done.stdout
    assert "Nothing was changed." in done.stdout
    (moved,) = json.loads(
        vivace_here("move", "high_ones", "secondary", "london", "--dry-run", "--json").stdout
    )["moves"]
    assert (moved["outcome"], moved["secondary"]) == ("planned", ["lyon", "london"])
    assert "lyon is open" in vivace_here("uncordon", "lyon").stdout
    assert (
        "lyon is cordoned; replicas there: high.high_ones." in vivace_here("cordon", "lyon").stdout
    )
    assert "lyon is cordoned already" in vivace_here("cordon", "lyon").stdout
    cordoned = json.loads(vivace_here("status", "--json").stdout)["nodes"]
    assert [each["node"] for each in cordoned if each["cordoned"]] == ["lyon"]
    wrong = vivace_here("move", "high_ones", "tertiary", "london")
    assert wrong.returncode == 2
    assert "Say primary or secondary." in wrong.stderr
    wrong = vivace_here("switchover", "high_one")
    assert wrong.returncode == 2
    assert "Did you mean high_ones?" in wrong.stderr
    kinds = [entry.event.kind for entry in store.history()]
    assert "cordoned" in kinds
    assert json.loads(vivace_here("uncordon", "lyon", "--json").stdout)["cordon"]["changed"]


def test_delete_takes_unused_streams_along(
    store: ZooKeeperStore, vivace_here: Vivace, manifests: Path
) -> None:
    vivace_here("apply", "-f", manifests, "--no-wait")
    wrong = vivace_here("delete", "hihg")
    assert wrong.returncode == 2
    assert "Did you mean high?" in wrong.stderr
    done = vivace_here("delete", "high", "--json")
    deleted = {"queries": ["high"], "streams": ["positions"], "absent": []}
    assert json.loads(done.stdout) == {"deleted": deleted}
    assert store.list(QUERIES).records == {}
    assert store.list(STREAMS).records == {}


def test_delete_takes_what_files_name(
    store: ZooKeeperStore, vivace_here: Vivace, manifests: Path
) -> None:
    assert "NAME: is missing" in vivace_here("delete").stderr
    vivace_here("apply", "-f", manifests, "--no-wait")
    wrong = vivace_here("delete", "high", "low", "-f", manifests)
    assert (wrong.returncode, "'low' is no query or stream here" in wrong.stderr) == (2, True)
    assert [*store.list(QUERIES).records] == ["high"]
    done = vivace_here("delete", "-f", manifests)
    assert done.stdout == "Deleted query high, and stream positions.\n"
    assert store.list(STREAMS).records == {}
    again = vivace_here("delete", "-f", manifests)
    assert (again.returncode, "are not here" in again.stderr) == (2, True)


def test_history_tells_the_newest(
    store: ZooKeeperStore, vivace_here: Vivace, manifests: Path
) -> None:
    assert "Nothing has happened yet." in vivace_here("history").stdout
    vivace_here("apply", "-f", manifests, "--no-wait")
    events = json.loads(vivace_here("history", "-n", "1", "--json").stdout)["history"]
    assert [(event["kind"], event["subject"]) for event in events] == [("applied", "query high")]


def test_tail_refuses_an_unknown_stream(
    store: ZooKeeperStore, vivace_here: Vivace, manifests: Path
) -> None:
    vivace_here("apply", "-f", manifests, "--no-wait")
    done = vivace_here("tail", "high_one")
    assert done.returncode == 2
    assert "Did you mean high_ones?" in done.stderr
