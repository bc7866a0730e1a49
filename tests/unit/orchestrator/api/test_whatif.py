"""`vivace whatif`: the leader's own decisions, on a copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestrator.api.apart import carry_apart
from orchestrator.api.connection import Cluster
from orchestrator.api.whatif import what_if
from orchestrator.deploy.context import ClusterContext
from orchestrator.errors import InvalidInput, VivaceError
from orchestrator.operations import table
from orchestrator.operations.parameters import WhatIfParameters
from orchestrator.operations.texts import ManifestSource, NamedText
from orchestrator.progress import silent
from orchestrator.results.whatif import WhatIfDocument
from orchestrator.simulation.paper.assumptions import assumed
from orchestrator.simulation.paper.cluster import PaperCluster, PaperStuck
from orchestrator.simulation.paper.outlook import STATE_BYTES_S
from orchestrator.store.copied import copy_of
from tests.obedient_cluster import ObedientCluster, aircraft
from tests.saved_cluster import READ_AGAIN, SavedCluster

QUERY = """
kind: Query
name: {name}
statements: |
  REGISTER QUERY {name} RSTREAM(SELECT id, x FROM north [NOW] WHERE x > 1);
outputs: {{{name}: {{site: control-centre}}}}
deadline: {deadline}
recovery: 300 ms
estimates: {{{name}: {{cost: 20 us, selectivity: 1}}}}
"""


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.apply(aircraft())
    made.settle()
    return made


def connected(cluster: ObedientCluster) -> Cluster:
    reach = ClusterContext(cluster="aircraft", pid=1, started_s=0.0, folder="")
    return Cluster(reach, cluster.store)


def asked(cluster: ObedientCluster, **parameters: Any) -> WhatIfDocument:
    return what_if(connected(cluster), WhatIfParameters(**parameters))


def written(*queries: str) -> tuple[ManifestSource, ...]:
    text = "---".join(queries)
    return (ManifestSource(path="q.yaml", files=(NamedText(file="q.yaml", text=text),)),)


def test_nothing_assumed_changes_nothing(cluster: ObedientCluster) -> None:
    revision = cluster.server.revision
    found = asked(cluster)
    assert found.assumed == found.problems == found.losses == ()
    assert not any(each.changes for each in found.fragments)
    assert [(q.before, q.after) for q in found.queries] == [(q.before,) * 2 for q in found.queries]
    assert cluster.server.revision == revision


def test_without_a_node_its_replicas_are_where_the_leader_would_put_them(
    cluster: ObedientCluster,
) -> None:
    node = cluster.view().fragments["proximity.alerts"].record.primary.node
    revision = cluster.server.revision
    found = asked(cluster, without=(node,))
    assert cluster.server.revision == revision
    assert found.lost == (node,)
    alerts = next(each for each in found.fragments if each.fragment == "alerts")
    assert alerts.primary == (node, alerts.secondary[0])
    assert alerts.unprotected_s is not None
    assert alerts.unprotected_s > 0
    (loss,) = found.losses
    assert loss.harmless
    assert "proximity.alerts" in loss.takeovers
    assert loss.recovery_ms is not None
    # What really happens: the secondaries take over, and the node is gone.
    for record in cluster.view().fragments.values():
        if record.record.primary.node == node:
            cluster.take_over(record.record, record.version)
    cluster.kill(node)
    cluster.settle()
    after = {n: each.record for n, each in cluster.view().fragments.items()}
    assert {each.key: (each.primary[1], each.secondary[1]) for each in found.fragments} == {
        name: (record.primary.node, record.secondary and record.secondary.node)
        for name, record in after.items()
    }


def test_a_place_that_rests_on_the_readings_of_a_moment_is_one_of_several(
    cluster: ObedientCluster,
) -> None:
    record = cluster.view().fragments["proximity.alerts"].record
    assert record.secondary is not None
    gone = record.secondary.node

    def places() -> tuple[str | None, set[str | None]]:
        found = asked(cluster, without=(gone,)).fragments
        (alerts,) = (each for each in found if each.fragment == "alerts")
        assert {primary for primary, _ in alerts.alternatives} <= {record.primary.node}
        return alerts.secondary[1], {secondary for _, secondary in alerts.alternatives}

    # Frankfurt would cost 2.5 % more than Amsterdam.
    assert places() == ("amsterdam", set())
    for host in cluster.hosts.values():
        host.tell(spreads_ms=dict.fromkeys(host.record.latencies_ms, 3.0))
    assert places() == ("amsterdam", {"frankfurt"})


def test_what_cannot_be_healed_is_named_with_the_reason() -> None:
    cluster = ObedientCluster(
        ("paris", "london", "north-receiver", "south-receiver", "control-centre")
    )
    cluster.apply(aircraft())
    cluster.settle()
    found = asked(cluster, without=("paris",))
    assert {each.key for each in found.unprotected} == cluster.view().fragments.keys()
    assert all(each.why for each in found.unprotected)
    (loss,) = found.losses
    assert not loss.harmless
    assert loss.unprotected_s is None


def test_what_is_lost_at_the_same_time_takes_over_from_nothing(cluster: ObedientCluster) -> None:
    record = cluster.view().fragments["proximity.alerts"].record
    assert record.secondary is not None
    found = asked(cluster, without=(record.primary.node, record.secondary.node)).losses
    assert [each.name for each in found] == [record.primary.node, record.secondary.node]
    for loss in found:
        assert "proximity.alerts" in loss.states_lost
        assert "proximity.alerts" not in loss.takeovers
        assert not loss.harmless
    assert "nothing for proximity.alerts, which would begin anew" in found[0].kept_by


def test_what_has_a_checkpoint_goes_on_from_it(tmp_path: Path) -> None:
    saved = SavedCluster(tmp_path / "state", source=READ_AGAIN)
    record = saved.view.fragments["proximity.alerts"].record
    assert record.secondary is not None
    nodes = record.primary.node, record.secondary.node
    for loss in asked(saved.cluster, without=nodes).losses:
        assert "proximity.alerts" in loss.restored
        assert loss.states_lost == ()
        assert not loss.harmless
        assert "which would go on from checkpoints" in loss.kept_by


def test_each_loses_everything_alone(cluster: ObedientCluster) -> None:
    found = asked(cluster, each=True)
    kinds = [each.kind for each in found.losses]
    assert [kinds.count(kind) for kind in ("node", "application", "machine", "site")] == [
        6,
        6,
        1,
        3,
    ]
    (machine,) = (each for each in found.losses if each.kind == "machine")
    assert machine.states_lost == tuple(sorted(cluster.view().fragments))
    sites = {each.name: each for each in found.losses if each.kind == "site"}
    assert sites["north-receiver"].streams == ("north",)
    assert sites["control-centre"].outputs == ("alerts",)


def test_a_loss_whose_decisions_do_not_end_is_a_row_that_says_so(
    cluster: ObedientCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose = PaperCluster.lose

    def stuck_without_paris(paper: PaperCluster, hosts: tuple[str, ...]) -> None:
        if hosts == ("paris",):
            raise PaperStuck("again and again")
        lose(paper, hosts)

    monkeypatch.setattr(PaperCluster, "lose", stuck_without_paris)
    losses = {(e.kind, e.name): e for e in asked(cluster, each=True).losses}
    paris = losses.pop(("node", "paris"))
    assert (paris.hosts, paris.unknown, paris.harmless) == (("paris",), "again and again", False)
    assert paris.unprotected_s is None
    assert {each.unknown for each in losses.values()} == {"", "again and again"}
    assert losses["node", "london"].unknown == ""


def test_a_larger_state_takes_longer_to_be_protected_again(cluster: ObedientCluster) -> None:
    record = cluster.view().fragments["proximity.alerts"].record
    secondary = record.secondary
    assert secondary is not None

    def unprotected_s() -> float | None:
        (loss,) = asked(cluster, without=(secondary.node,)).losses
        return loss.unprotected_s

    small_s = unprotected_s()
    host = cluster.hosts[record.primary.node]
    status = msgspec.structs.replace(host.record.replicas["alerts"], state_bytes=500_000_000)
    host.tell(replicas={**host.record.replicas, "alerts": status})
    assert small_s is not None
    assert unprotected_s() == pytest.approx(small_s + 500_000_000 / STATE_BYTES_S)


def test_a_query_that_nothing_is_left_of_is_a_broken_promise(cluster: ObedientCluster) -> None:
    found = asked(cluster, without=tuple(sorted(cluster.view().executors)))
    assert "query proximity: it runs no more" in found.breaks


def test_more_load_takes_more_of_every_node(cluster: ObedientCluster) -> None:
    once, twice = (asked(cluster, load=factor) for factor in (1.0, 2.0))
    assert twice.assumed == ("2 times the load",)
    (before,), (after,) = once.queries, twice.queries
    assert before.after is not None
    assert after.after is not None
    assert after.after.network_usage_bytes == pytest.approx(
        2 * before.after.network_usage_bytes, rel=0.01
    )


def test_a_longer_round_trip_makes_an_output_later(cluster: ObedientCluster) -> None:
    node = cluster.view().fragments["proximity.alerts"].record.primary.node
    found = asked(cluster, latency=(f"{node}:control-centre=160ms",))
    assert found.breaks == ()
    (broken,) = asked(cluster, latency=(f"{node}:control-centre=900ms",)).breaks
    assert broken.startswith("query proximity: latency")
    (query,) = found.queries
    assert query.before is not None
    assert query.after is not None
    assert query.after.latency_ms > query.before.latency_ms + 50


def test_a_node_that_is_added_can_stand_in(cluster: ObedientCluster) -> None:
    every = tuple(n for n in cluster.view().executors if n != "paris")
    found = asked(cluster, add_node=("rome=like:paris",), without=every[1:])
    nodes = {each.primary[1] for each in found.fragments}
    nodes |= {each.secondary[1] for each in found.fragments}
    assert nodes <= {"paris", "rome", every[0]}


def test_the_round_trip_to_a_node_that_is_added_can_be_said(cluster: ObedientCluster) -> None:
    paper = PaperCluster(copy_of(cluster.store), cluster.now_us)
    otherwise = assumed(paper.view(), 1.0, ("rome:lyon=7ms",), ("rome=like:paris",))
    nodes = PaperCluster(otherwise.written_into(paper.copy()), paper.now_us).view().hosts
    assert nodes["rome"].latencies_ms["lyon"] == nodes["lyon"].latencies_ms["rome"] == 7.0
    assert nodes["rome"].latencies_ms["zurich"] == nodes["paris"].latencies_ms["zurich"]
    assert nodes["zurich"].latencies_ms["rome"] == nodes["zurich"].latencies_ms["paris"]


def test_a_query_is_admitted_or_refused_by_the_leader(cluster: ObedientCluster) -> None:
    manifests = written(
        QUERY.format(name="high", deadline="300 ms"), QUERY.format(name="rash", deadline="1 ms")
    )
    found = asked(cluster, manifests=manifests)
    (refused,) = found.refused
    assert refused.query == "rash"
    assert "deadline" in refused.why
    high = next(each for each in found.fragments if each.query == "high")
    assert high.primary[0] is None
    assert high.primary[1] in cluster.view().executors
    assert "high" not in cluster.view().queries


@pytest.mark.parametrize(
    ("parameters", "option", "problem"),
    [
        ({"without": ("pari",)}, "without", "Did you mean paris?"),
        ({"without": ("rack:a",)}, "without", "is no kind"),
        ({"without": ("site:paris",)}, "without", "is no site that runs"),
        ({"load": 0.0}, "load", "is no factor"),
        ({"latency": ("paris=80ms",)}, "latency", "A:B=DURATION"),
        ({"latency": ("paris:rome=80ms",)}, "latency", "names rome"),
        ({"latency": ("paris:lyon=far",)}, "latency", "is not a duration"),
        ({"add_node": ("rome",)}, "add_node", "NAME=like:NODE"),
        ({"add_node": ("lyon=like:paris",)}, "add_node", "names lyon, which runs"),
        ({"add_node": ("rome=like:oslo",)}, "add_node", "names oslo"),
        ({"without": ("control-centre",)}, "without", "Did you mean site:control-centre?"),
        ({"latency": ("paris:paris=5ms",)}, "latency", "one host twice"),
        ({"latency": ("paris:lyon=5ms", "lyon:paris=9ms")}, "latency", "a second time"),
        ({"add_node": ("a/b=like:paris",)}, "add_node", "cannot be the name of a node"),
        ({"add_node": ("..=like:paris",)}, "add_node", "cannot be the name of a node"),
        ({"add_node": ("rome=like:paris", "rome=like:lyon")}, "add_node", "is added already"),
        ({"each": True, "without": ("paris",)}, "each", "without as well"),
    ],
)
def test_what_is_no_assumption_is_refused(
    cluster: ObedientCluster, parameters: dict[str, Any], option: str, problem: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        asked(cluster, **parameters)
    assert raised.value.field == option
    assert problem in str(raised.value)


@pytest.mark.slow
def test_a_child_computes_it_and_tells_how_far_it_is(cluster: ObedientCluster) -> None:
    steps: list[str] = []
    found = carry_apart(
        table.WHAT_IF,
        connected(cluster),
        WhatIfParameters(without=("paris",)),
        lambda _step, detail: steps.append(detail),
    )
    assert found == asked(cluster, without=("paris",))
    assert steps == ["the cluster as it is", "without paris"]


@pytest.mark.slow
def test_an_error_of_the_child_is_raised_here(cluster: ObedientCluster) -> None:
    with pytest.raises(VivaceError, match="Did you mean paris") as raised:
        carry_apart(table.WHAT_IF, connected(cluster), WhatIfParameters(without=("pari",)), silent)
    assert isinstance(raised.value, InvalidInput)
