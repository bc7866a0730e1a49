"""NetworkPolicies as rules of nftables: one table in each pod's own network namespace.

A pod that a policy chooses gets the connections that some policy admits, and no others; the same
for those that it makes. Others are refused at once, where most networks say nothing at all. This
machine stands for the node of each pod, from which connections always come in, and for the pods
that tell addresses of names: they are labelled `k8s-app: kube-dns`, in `kube-system`.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.platform.kinds import NAMESPACE, NOTHING, POD, POLICY, Object, name_of
from tests.platform.network import Network
from tests.platform.objects import Objects
from tests.platform.selectors import chosen

LOOK_S = 0.1
DUE_S = 1.0

PROGRAM = "nft"

DNS_LABELS = {"k8s-app": "kube-dns"}
DNS_NAMESPACE = "kube-system"

_table = """\
table inet policies
delete table inet policies
table inet policies {{
{chains}
}}
"""

_chain = """\
  chain {hook} {{
    type filter hook {hook} priority 0; policy accept;
    ct state established,related accept
    {always}
{rules}
    meta l4proto tcp reject with tcp reset
    reject
  }}
"""

_log = logging.getLogger("platform.policies")


@dataclass(frozen=True, slots=True)
class Place:
    """Something that has an address, as policies choose it."""

    address: str
    labels: dict[str, str]
    namespace: str
    namespace_labels: dict[str, str]
    ports: tuple[Object, ...] = ()

    def port(self, name: str, protocol: str) -> int | None:
        """The number of a port of its containers."""
        for each in self.ports:
            if each.get("name") == name and each.get("protocol", "TCP") == protocol:
                return each["containerPort"]
        return None


def table(pod: Place, places: Sequence[Place], policies: Sequence[Object], node: str) -> str:
    """The rules of one pod.

    Parameters
    ----------
    places
        All that have addresses, itself included.
    policies
        Of all namespaces.
    node
        This machine's address.
    """
    own = [
        each["spec"]
        for each in policies
        if each["metadata"]["namespace"] == pod.namespace
        and chosen(pod.labels, each["spec"].get("podSelector") or {})
    ]
    chains: list[str] = []
    for hook, kind, way, always in (
        ("input", "Ingress", "saddr", f"iif lo accept; ip saddr {node} accept"),
        ("output", "Egress", "daddr", "oif lo accept"),
    ):
        of_kind = [spec for spec in own if kind in _types(spec)]
        if not of_kind:
            continue
        rules = sorted({
            f"    {rule} accept"
            for spec in of_kind
            for given in spec.get(kind.lower()) or ()
            for rule in _rules(given, way, pod, places)
        })  # fmt: skip
        chains.append(_chain.format(hook=hook, always=always, rules="\n".join(rules)))
    return _table.format(chains="\n".join(chains))


def _types(spec: Object) -> Sequence[str]:
    return spec.get("policyTypes") or ["Ingress", *(["Egress"] if spec.get("egress") else [])]


def _rules(given: Object, way: str, pod: Place, places: Sequence[Place]) -> Iterator[str]:
    """What a rule of a policy admits; `way` is the end of a connection that is another's."""
    peers = given.get("from" if way == "saddr" else "to")
    ports = given.get("ports") or [None]
    for port in ports:
        if port is not None and isinstance(port.get("port"), str) and way == "daddr":
            # Each peer has its own number for a name.
            for place in places:
                is_one = not peers or any(_is_peer(place, each, pod) for each in peers)
                if is_one and (told := _port(port, place)) is not None:
                    yield f"ip daddr {place.address} {told}"
            continue
        told = "" if port is None else _port(port, pod)
        if told is not None:
            yield from (f"{each} {told}".strip() for each in _ends(peers, way, pod, places))


def _ends(
    peers: Sequence[Object] | None, way: str, pod: Place, places: Sequence[Place]
) -> Iterator[str]:
    if not peers:
        yield f"ip {way} 0.0.0.0/0"
        return
    for peer in peers:
        if (block := peer.get("ipBlock")) is not None:
            family = "ip6" if ":" in block["cidr"] else "ip"
            less = block.get("except") or ()
            without = f" {family} {way} != {{ {', '.join(less)} }}" if less else ""
            yield f"{family} {way} {block['cidr']}{without}"
        elif found := sorted({each.address for each in places if _is_peer(each, peer, pod)}):
            yield f"ip {way} {{ {', '.join(found)} }}"


def _is_peer(place: Place, peer: Object, pod: Place) -> bool:
    if "ipBlock" in peer:
        return False
    spaces = peer.get("namespaceSelector")
    if spaces is None:
        here = place.namespace == pod.namespace
    else:
        here = chosen(place.namespace_labels, spaces)
    return here and chosen(place.labels, peer.get("podSelector") or {})


def _port(port: Object, of: Place) -> str | None:
    """A port of a policy, where a name means what it means to a place; None: it has none."""
    protocol = port.get("protocol", "TCP")
    number = port.get("port")
    if isinstance(number, str):
        number = of.port(number, protocol)
        if number is None:
            return None
    if number is None:
        return f"meta l4proto {protocol.lower()}"
    last = f"-{port['endPort']}" if "endPort" in port else ""
    return f"{protocol.lower()} dport {number}{last}"


class Policies:
    """Keeps the rules of all pods, until it is closed.

    Attributes
    ----------
    enforced
        Whether there are any: pods have networks of their own, and rules can be made.
    """

    def __init__(self, objects: Objects, network: Network) -> None:
        self._objects = objects
        self._network = network
        self.enforced = network.isolated and shutil.which(PROGRAM) is not None
        self._known: dict[str, str] = {}
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._ending.set()
        self._thread.join()

    def apply(self) -> None:
        """Have the rules of all pods be as the policies say now."""
        if not self.enforced:
            return
        with self._lock:
            policies = self._objects.list(POLICY)
            places = self._places()
            for place in places:
                namespace = self._network.namespace(place.address)
                if namespace is None:
                    continue
                rules = table(place, places, policies, self._network.gateway)
                if self._known.get(namespace, _table.format(chains="")) != rules:
                    _filter(namespace, rules)
                    self._known[namespace] = rules

    def _watch(self) -> None:
        seen = 0
        while not self._ending.wait(LOOK_S):
            seen = self._objects.await_change(seen, DUE_S)
            self.apply()

    def _places(self) -> list[Place]:
        spaces = {
            name_of(each): each["metadata"].get("labels") or NOTHING
            for each in self._objects.list(NAMESPACE)
        }
        system = {"kubernetes.io/metadata.name": DNS_NAMESPACE}
        found = [Place(self._network.gateway, DNS_LABELS, DNS_NAMESPACE, system)]
        for pod in self._objects.list(POD):
            if address := (pod.get("status") or NOTHING).get("podIP"):
                namespace = pod["metadata"]["namespace"]
                ports = tuple(
                    port
                    for container in pod["spec"]["containers"]
                    for port in container.get("ports") or ()
                )
                labels = pod["metadata"].get("labels") or NOTHING
                space = spaces.get(namespace, NOTHING)
                found.append(Place(address, labels, namespace, space, ports))
        return found


def _filter(namespace: str, rules: str) -> None:
    command = ["ip", "netns", "exec", namespace, PROGRAM, "-f", "-"]
    done = subprocess.run(command, input=rules, text=True, capture_output=True, check=False)
    if done.returncode:
        _log.error("%s: %s\n%s", namespace, done.stderr, rules)
