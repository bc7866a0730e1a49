"""Plans of moves from the client's side: files, the table of operations, the terminal."""

from __future__ import annotations

import io
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console, RenderableType

from orchestrator import api
from orchestrator.api import plan_files as subject
from orchestrator.api.carrying import carry_out
from orchestrator.cli.apply import command as apply_command
from orchestrator.cli.plan_options import agreed
from orchestrator.cli.rebalance import write_plan
from orchestrator.cli.render.plan_files import move_plans_view, plan_file_view
from orchestrator.control.decide.moving import REMEMBERED_US
from orchestrator.deploy.context import ClusterContext
from orchestrator.errors import Drifted, InvalidInput, error_report, reported
from orchestrator.operations import table
from orchestrator.operations.parameters import (
    ApplyPlanParameters,
    Parameters,
    RebalanceParameters,
    UndoParameters,
)
from orchestrator.operations.texts import read_plan
from orchestrator.records import Immovable, PlanFile
from orchestrator.store.protocol import MOVES
from tests.obedient_cluster import ObedientCluster, aircraft

ALERTS = "proximity.alerts"


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.apply(aircraft())
    made.settle()
    return made


@pytest.fixture
def connected(cluster: ObedientCluster, monkeypatch: pytest.MonkeyPatch) -> api.Cluster:
    """A connection; coordinator and hosts act whenever the API waits."""
    sleep, thread = time.sleep, threading.get_ident()

    def act(seconds: float) -> None:
        if threading.get_ident() != thread:
            sleep(seconds)
            return
        cluster.step()
        for host in cluster.hosts.values():
            host.obey()

    monkeypatch.setattr(time, "sleep", act)
    reach = ClusterContext(cluster="aircraft", pid=1, started_s=0.0, folder="nowhere")
    return api.Cluster(reach, cluster.store, by="somebody@host")


def shown(view: RenderableType) -> str:
    text = io.StringIO()
    Console(width=160, file=text).print(view)
    return text.getvalue()


def displaced(cluster: ObedientCluster, connected: api.Cluster) -> tuple[str, ...]:
    """Move the primary of the alerts away; the nodes before."""
    before = nodes(cluster)
    api.move(connected, ALERTS, "primary", "zurich", on_progress=cluster.step)
    assert nodes(cluster) != before
    return before


def nodes(cluster: ObedientCluster) -> tuple[str, ...]:
    return tuple(each.node for each in cluster.view().fragments[ALERTS].record.replicas)


def test_undo_is_an_operation_that_plans_and_apply_plan_one_that_does(
    cluster: ObedientCluster, connected: api.Cluster, tmp_path: Path
) -> None:
    before = displaced(cluster, connected)
    back = carry_out(table.UNDO, connected, UndoParameters(), cluster.step)
    assert nodes(cluster) != before
    write_plan(back, tmp_path / "plan.json")
    plan = read_plan(tmp_path / "plan.json")
    assert plan == back
    assert f"{ALERTS}  primary  zurich → {before[0]}" in " ".join(
        shown(plan_file_view(plan)).split(" ")
    ).replace("   ", "  ")
    asked = ApplyPlanParameters(plan=plan, dry_run=True)
    looked = carry_out(table.APPLY_PLAN, connected, asked, cluster.step)
    assert [each.outcome for each in looked.moves] == ["planned"]
    done = carry_out(table.APPLY_PLAN, connected, ApplyPlanParameters(plan=plan), cluster.step)
    assert (done.done, nodes(cluster)) == (True, before)


def test_plans_are_listed_beyond_their_records_with_who_asked_and_what_came_of_them(
    cluster: ObedientCluster, connected: api.Cluster
) -> None:
    displaced(cluster, connected)
    cluster.now_us += REMEMBERED_US
    cluster.settle()
    assert not cluster.view().moves
    plan = api.undo(connected, on_progress=cluster.step)
    wish = msgspec.convert(
        ApplyPlanParameters(plan=plan, throttle_bytes_s=2e6),
        subject.ApplyPlanRequest,
        from_attributes=True,
    )
    api.apply_plan(connected, wish, on_progress=cluster.step)
    listed = carry_out(table.MOVES, connected, Parameters(), cluster.step).plans
    assert [(each.by, each.outcome, each.under_way) for each in listed] == [
        ("somebody@host", "1 of 1 done", False)
    ] * 2
    undone, moved = listed
    assert (undone.undo_of, undone.digest) == (moved.name, plan.digest)
    assert (undone.undone_by, moved.undone_by) == (None, undone.name)
    assert undone.throttle_bytes_s == 2e6
    told = shown(move_plans_view(api.MovePlansDocument(plans=listed)))
    assert "1 of 1 done" in told
    assert "somebody@host" in told
    assert f"takes {moved.name} back" in told
    assert f"taken back by {undone.name}" in told
    with pytest.raises(InvalidInput, match="there is no plan of moves to take back"):
        api.undo(connected)
    with pytest.raises(InvalidInput, match="is no plan of moves that is known"):
        api.undo(connected, "other")


def test_undo_without_a_name_takes_the_newest_plan_that_is_still_done(
    cluster: ObedientCluster, connected: api.Cluster
) -> None:
    before = displaced(cluster, connected)

    def newest() -> str:
        cluster.now_us += 1
        return api.move_plans(connected).plans[0].name

    first = newest()
    api.move(connected, ALERTS, "secondary", "frankfurt", on_progress=cluster.step)
    second = newest()

    def go_back(plan: str | None = None) -> None:
        wish = subject.ApplyPlanRequest(plan=api.undo(connected, plan, on_progress=cluster.step))
        api.apply_plan(connected, wish, on_progress=cluster.step)

    def next_one() -> str | None:
        cluster.now_us += 1
        return api.undo(connected, on_progress=cluster.step).undo_of

    go_back()
    assert next_one() == first
    # What was taken back is done again, so that this is the newest change.
    go_back(newest())
    assert next_one() == second
    # A way back that was not gone has taken nothing back.
    went = cluster.view().moves[second].record
    failed = msgspec.structs.replace(went.steps[0], done=False, failed="was interrupted")
    back = msgspec.structs.replace(went, name="failed", undo_of=second, steps=(failed,))
    cluster.store.create(MOVES.key("failed"), back)
    assert next_one() == second
    go_back()
    go_back()
    assert nodes(cluster) == before


def test_a_plan_that_has_drifted_ends_with_status_4_and_a_table_wherever_it_is_told(
    cluster: ObedientCluster, connected: api.Cluster
) -> None:
    before = displaced(cluster, connected)
    plan = api.undo(connected, on_progress=cluster.step)
    api.cordon(connected, before[0])
    with pytest.raises(Drifted) as refused:
        carry_out(table.APPLY_PLAN, connected, ApplyPlanParameters(plan=plan), cluster.step)
    report = error_report(refused.value)
    assert report.exit_status == 4
    document = msgspec.json.decode(msgspec.json.encode(report.document))
    incarnation = cluster.hosts[before[0]].record.incarnation
    assert document["error"]["differences"] == [[f"nodes/{before[0]}", incarnation, "cordoned"]]
    again = reported(document["error"])
    assert (again.exit_status, str(again)) == (4, str(refused.value))
    assert "was" in str(again).splitlines()[1]


def test_a_rebalancing_is_an_operation_with_its_limits(
    cluster: ObedientCluster, connected: api.Cluster
) -> None:
    asked = RebalanceParameters(goals=("balance",), max_moves=2, max_bytes=5e6, query="proximity")
    plan = carry_out(table.REBALANCE, connected, asked, cluster.step)
    assert plan.rebalancing is not None
    assert plan.rebalancing.goals == ("balance",)
    limits = plan.rebalancing.limits
    assert (limits.max_moves, limits.max_bytes, limits.query) == (2, 5e6, "proximity")
    assert "Goals: balance." in shown(plan_file_view(plan))


def test_what_cannot_go_back_is_shown(cluster: ObedientCluster, connected: api.Cluster) -> None:
    displaced(cluster, connected)
    plan = api.undo(connected, on_progress=cluster.step)
    stays = msgspec.structs.replace(
        plan, moves=(), immovable=(Immovable(fragment=ALERTS, problem="it is stopped: poison"),)
    )
    told = shown(plan_file_view(stays))
    assert "Nothing of plan" in told
    assert f"{ALERTS} stays: it is stopped: poison" in told


def test_a_file_with_fields_that_no_plan_has_was_changed(
    cluster: ObedientCluster, connected: api.Cluster, tmp_path: Path
) -> None:
    displaced(cluster, connected)
    write_plan(api.undo(connected, on_progress=cluster.step), tmp_path / "plan.json")
    read = msgspec.json.decode((tmp_path / "plan.json").read_text())
    same, other = tmp_path / "same.json", tmp_path / "other.json"
    same.write_bytes(msgspec.json.encode(dict(reversed(read.items()))))
    assert read_plan(same) == read_plan(tmp_path / "plan.json")
    noted = [move | {"note": "checked"} for move in read["moves"]]
    for changed in (read | {"throttle": "5MB/s"}, read | {"moves": noted}):
        other.write_bytes(msgspec.json.encode(changed))
        with pytest.raises(InvalidInput, match="it has other fields than a plan") as refused:
            read_plan(other)
        assert refused.value.file == str(other)


@pytest.mark.parametrize("text", ["{", '{"a": 1}', '{"a":' * 100_000], ids=["{", "a", "deep"])
def test_a_file_that_is_no_plan_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    with pytest.raises(InvalidInput, match="is no plan") as refused:
        read_plan(file)
    assert refused.value.file == str(file)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "is missing"),
        ({"plan": Path("plan.json"), "files": [Path("q.yaml")]}, "is there beside another one"),
        ({"plan": Path("plan.json"), "throttle": "1 KB/s"}, "too little to bring a state"),
        ({"plan": Path("plan.json"), "throttle": "fast"}, "--throttle"),
    ],
)
def test_apply_takes_a_plan_or_manifests(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        apply_command(**given)


def test_undo_is_not_carried_out_where_nobody_can_be_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(InvalidInput, match="nobody can be asked"):
        agreed("Move them back?")


@pytest.mark.parametrize(("said", "agrees"), [("y", True), ("n", False), (None, False)])
def test_whoever_ends_the_input_at_the_question_does_not_agree(
    monkeypatch: pytest.MonkeyPatch, said: str | None, agrees: bool
) -> None:
    def ask(_: str) -> str:
        if said is None:
            raise EOFError
        return said

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert agreed("Move them back?", ask) == agrees


def test_a_plan_is_a_document_that_says_its_format() -> None:
    plan = PlanFile(cluster="c", cluster_id="i", moves=(), basis={})
    assert msgspec.json.decode(msgspec.json.encode(plan))["format"] == 1
