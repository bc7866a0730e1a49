"""Which connections the rules of a pod admit."""

from __future__ import annotations

from typing import Any

from tests.platform.kinds import Object
from tests.platform.policies import Place, table

NODE = "10.1.0.1"
HERE = {"kubernetes.io/metadata.name": "here"}
THERE = {"kubernetes.io/metadata.name": "there", "team": "ops"}
WEB_PORT: Object = {"name": "web", "containerPort": 8000, "protocol": "TCP"}

SERVER = Place("10.1.0.2", {"app": "server"}, "here", HERE, (WEB_PORT,))
FRIEND = Place("10.1.0.3", {"app": "friend"}, "here", HERE)
ELSEWHERE = Place(
    "10.1.0.4", {"app": "friend"}, "there", THERE, ({**WEB_PORT, "containerPort": 9},)
)
PLACES = (SERVER, FRIEND, ELSEWHERE)


def policy(namespace: str = "here", **spec: Any) -> Object:
    return {"metadata": {"name": "p", "namespace": namespace}, "spec": spec}


def admitted(pod: Place, *policies: Object) -> dict[str, list[str]]:
    """Chain → what it admits besides open connections and what always comes in."""
    found: dict[str, list[str]] = {}
    rules: list[str] = []
    for line in table(pod, PLACES, policies, NODE).splitlines():
        text = line.strip()
        if text.startswith("chain"):
            rules = found[text.split()[1]] = []
        elif text.startswith(("ip ", "ip6 ")) and text.endswith(" accept"):
            rules.append(text.removesuffix(" accept"))
    return found


def test_a_pod_that_no_policy_chooses_has_no_rules() -> None:
    others = policy(podSelector={"matchLabels": {"app": "friend"}}), policy("there", podSelector={})
    assert admitted(SERVER, *others) == {}


def test_what_no_rule_admits_is_refused_in_the_directions_that_a_policy_is_of() -> None:
    assert admitted(SERVER, policy(podSelector={})) == {"input": []}
    assert admitted(SERVER, policy(podSelector={}, policyTypes=["Egress"])) == {"output": []}
    assert admitted(SERVER, policy(podSelector={}, egress=[{}])) == {
        "input": [],
        "output": ["ip daddr 0.0.0.0/0"],
    }


def test_policies_add_up() -> None:
    first = policy(podSelector={}, ingress=[{"ports": [{"port": 1}]}])
    second = policy(podSelector={}, ingress=[{"ports": [{"port": 2, "endPort": 4}]}])
    assert admitted(SERVER, first, second)["input"] == [
        "ip saddr 0.0.0.0/0 tcp dport 1",
        "ip saddr 0.0.0.0/0 tcp dport 2-4",
    ]


def test_peers_are_of_the_policys_namespace_unless_they_are_chosen_by_theirs() -> None:
    friends = {"podSelector": {"matchLabels": {"app": "friend"}}}
    assert admitted(SERVER, policy(podSelector={}, ingress=[{"from": [friends]}])) == {
        "input": [f"ip saddr {{ {FRIEND.address} }}"]
    }
    by_team = {**friends, "namespaceSelector": {"matchLabels": {"team": "ops"}}}
    assert admitted(SERVER, policy(podSelector={}, ingress=[{"from": [by_team]}])) == {
        "input": [f"ip saddr {{ {ELSEWHERE.address} }}"]
    }
    nobody = {"podSelector": {"matchLabels": {"app": "nobody"}}}
    assert admitted(SERVER, policy(podSelector={}, ingress=[{"from": [nobody]}])) == {"input": []}


def test_blocks_of_addresses_may_have_holes() -> None:
    block = {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}
    given = policy(podSelector={}, policyTypes=["Egress"], egress=[{"to": [block]}])
    assert admitted(SERVER, given) == {
        "output": ["ip daddr 10.0.0.0/8 ip daddr != { 10.1.0.0/16 }"]
    }


def test_blocks_of_both_families_may_stand_beside_each_other() -> None:
    blocks = [{"ipBlock": {"cidr": cidr}} for cidr in ("0.0.0.0/0", "::/0")]
    given = policy(podSelector={}, policyTypes=["Egress"], egress=[{"to": blocks}])
    assert admitted(SERVER, given) == {"output": ["ip daddr 0.0.0.0/0", "ip6 daddr ::/0"]}


def test_a_named_port_is_the_listening_pods_own() -> None:
    named = [{"port": "web"}]
    assert admitted(SERVER, policy(podSelector={}, ingress=[{"ports": named}]))["input"] == [
        "ip saddr 0.0.0.0/0 tcp dport 8000"
    ]
    everywhere: list[Object] = [{"namespaceSelector": {}}]
    given = policy(
        podSelector={}, policyTypes=["Egress"], egress=[{"to": everywhere, "ports": named}]
    )
    assert admitted(FRIEND, given) == {
        "output": [
            f"ip daddr {SERVER.address} tcp dport 8000",
            f"ip daddr {ELSEWHERE.address} tcp dport 9",
        ]
    }
    assert admitted(FRIEND, policy(podSelector={}, ingress=[{"ports": named}])) == {"input": []}
