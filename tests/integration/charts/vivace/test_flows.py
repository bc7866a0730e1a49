"""NetworkPolicies admit what docs/operations/install-kubernetes.md says, and nothing else."""

from __future__ import annotations

import ipaddress
import itertools
from pathlib import Path
from typing import Any

import pytest

from scripts.chart_docs import CHART
from tests.integration.charts.vivace.rendering import COMPONENT, Rendered, labels_of, render
from tests.platform.kinds import Object
from tests.platform.selectors import chosen

pytestmark = [pytest.mark.chart, pytest.mark.slow]

PORTS = (1, 53, 443, 2181, 2888, 3888, 6443, 7078, 7079, 8080, 8650, 9092, 9600, 9650, 40_000)

HOSTS = {"coordinator", "driver", "executor", "site", "web"}
"""Components that speak to ZooKeeper."""

WATCHED = 40_000
"""One of the ports at which web's observers listen."""


def expected(source: dict[str, str], target: dict[str, str], port: int) -> bool:
    """The table, for two pods by their labels."""
    one, other = source[COMPONENT], target[COMPONENT]
    own = source.get("vivace-application") == target.get("vivace-application")
    match port:
        case 53:
            # Names are asked for anywhere; none of these pods lets anybody ask it.
            return False
        case 2181:
            return other == "zookeeper" and one in HOSTS
        case 2888 | 3888:
            return one == other == "zookeeper"
        case 7078:
            return (one, other) == ("executor", "driver") and own
        case 7079:
            return {one, other} == {"executor", "driver"} and own
        case 9600:
            return one in ("executor", "site", "web") and other in ("executor", "site")
        case 8650:
            return (one, other) == ("job", "web")
        case _ if port == WATCHED:
            return one in ("executor", "site") and other == "web"
        case _:
            return False


def policies_of(found: Rendered, labels: dict[str, str]) -> list[Object]:
    chosen_by = [
        each["spec"]
        for each in found.of("NetworkPolicy")
        if chosen(labels, each["spec"]["podSelector"])
    ]
    assert chosen_by, f"no policy is about {labels}"
    assert all(each["policyTypes"] == ["Ingress", "Egress"] for each in chosen_by)
    return chosen_by


def admits(rules: list[Object], side: str, peer: dict[str, str] | str | None, port: int) -> bool:
    """Whether some rule lets a peer, by labels or by address, use a port; None: anybody."""
    return any(
        _has_port(rule, port) and (side not in rule or any(_is(each, peer) for each in rule[side]))
        for rule in rules
    )


def _has_port(rule: Object, port: int) -> bool:
    return "ports" not in rule or any(
        each["port"] <= port <= each.get("endPort", each["port"])
        for each in rule["ports"]
        if each.get("protocol", "TCP") == "TCP"
    )


def _is(each: Object, peer: dict[str, str] | str | None) -> bool:
    if isinstance(peer, str):
        block: Any = each.get("ipBlock")
        return block is not None and ipaddress.ip_address(peer) in ipaddress.ip_network(
            block["cidr"]
        )
    return peer is not None and "podSelector" in each and chosen(peer, each["podSelector"])


@pytest.mark.parametrize("scenario", ["default", "ha", "zones", "queries"])
def test_between_pods_of_a_release_exactly_the_table_is_admitted(
    scenario: str, tmp_path: Path
) -> None:
    found = render(tmp_path, CHART / "ci" / f"{scenario}.yaml")
    pods = [labels_of(pod) for _, pod in found.pods()]
    for source, target in itertools.product(pods, pods):
        for port in PORTS:
            out = any(
                admits(each.get("egress") or [], "to", target, port)
                for each in policies_of(found, source)
            )
            into = any(
                admits(each.get("ingress") or [], "from", source, port)
                for each in policies_of(found, target)
            )
            if port == 9650:
                # For kubelets: no pod is let out to it.
                assert into == (target[COMPONENT] not in ("zookeeper", "job"))
                assert not out
            else:
                assert (out and into) == expected(source, target, port), (source, target, port)


def test_pods_of_another_release_and_strangers_reach_nothing_but_health(tmp_path: Path) -> None:
    found = render(tmp_path, {})
    other = render(tmp_path, {}, release="other")
    strangers: list[dict[str, str] | str] = [labels_of(pod) for _, pod in other.pods()]
    for _, pod in found.pods():
        for stranger, port in itertools.product((*strangers, "10.0.0.7"), PORTS):
            into = any(
                admits(each.get("ingress") or [], "from", stranger, port)
                for each in policies_of(found, labels_of(pod))
            )
            assert into == (port == 9650 and labels_of(pod)[COMPONENT] not in ("zookeeper", "job"))


def test_what_values_open_is_open_and_nothing_else(tmp_path: Path) -> None:
    found = render(tmp_path, CHART / "ci" / "queries.yaml")
    (site,) = (labels_of(pod) for _, pod in found.pods() if labels_of(pod)[COMPONENT] == "site")
    (policy,) = policies_of(found, site)
    assert admits(policy["ingress"], "from", {"app": "meters"}, 8080)
    assert not admits(policy["ingress"], "from", {"app": "meters"}, 9600)
    assert not admits(policy["ingress"], "from", {"app": "others"}, 8080)
    assert admits(policy["egress"], "to", {"app": "kafka"}, 9092)
    assert not admits(policy["egress"], "to", {"app": "kafka"}, 9093)

    found = render(tmp_path, CHART / "ci" / "tls.yaml")
    (policy,) = (
        each["spec"] for each in found.of("NetworkPolicy")
        if each["spec"]["podSelector"]["matchLabels"][COMPONENT] == "web"
    )  # fmt: skip
    assert admits(policy["ingress"], "from", "10.1.2.3", 8650)
    assert not admits(policy["ingress"], "from", "11.1.2.3", 8650)


def test_whoever_keeps_checkpoints_reaches_where_they_are(tmp_path: Path) -> None:
    to = [{"ipBlock": {"cidr": "10.2.0.0/16"}}]
    rules = {"checkpoints": [{"to": to, "ports": [{"port": 443}]}]}
    found = render(
        tmp_path, {"networkPolicies": {**rules, "apiServer": {"cidrs": ["10.1.0.1/32"]}}}
    )
    for _, pod in found.pods():
        labels = labels_of(pod)
        (policy,) = policies_of(found, labels)
        keeps = labels[COMPONENT] in ("coordinator", "executor", "site")
        assert admits(policy["egress"], "to", "10.2.3.4", 443) == keeps


def test_all_may_ask_for_names_wherever_dns_listens(tmp_path: Path) -> None:
    found = render(tmp_path, {"networkPolicies": {"dnsPorts": [53, 5353]}})
    for _, pod in found.pods():
        (policy,) = policies_of(found, labels_of(pod))
        assert all(admits(policy["egress"], "to", {"dns": "here"}, port) for port in (53, 5353))


def test_drivers_alone_reach_the_platforms_api_and_only_where_it_is(tmp_path: Path) -> None:
    found = render(tmp_path, CHART / "ci" / "everything.yaml")
    for _, pod in found.pods():
        labels = labels_of(pod)
        (policy,) = policies_of(found, labels)
        is_driver = labels[COMPONENT] == "driver"
        assert admits(policy["egress"], "to", "10.1.0.1", 6443) == is_driver
        assert not admits(policy["egress"], "to", "10.1.0.2", 6443)
        assert not admits(policy["egress"], "to", "10.1.0.1", 443)


def test_zookeeper_of_somebody_else_is_reached_at_its_ports(tmp_path: Path) -> None:
    found = render(tmp_path, CHART / "ci" / "external-zookeeper.yaml")
    for _, pod in found.pods():
        labels = labels_of(pod)
        (policy,) = policies_of(found, labels)
        for port in (2181, 2182):
            assert admits(policy["egress"], "to", None, port) == (labels[COMPONENT] in HOSTS)


@pytest.mark.parametrize(
    "servers", ["a:2181,b,[::1]:2182/team", "zk1, zk2:2182", "[fe80::1],zk:2182"]
)
def test_a_folder_or_a_missing_port_of_such_servers_is_no_part_of_a_port(
    servers: str, tmp_path: Path
) -> None:
    found = render(tmp_path, {"zookeeper": {"external": servers}})
    policy = found.one("NetworkPolicy", "-coordinator")
    assert [each["port"] for each in policy["spec"]["egress"][1]["ports"]] == [2181, 2182]
