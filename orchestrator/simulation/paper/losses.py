"""What can be lost alone, with its hosts: a node, what nodes die with, or a site."""

from __future__ import annotations

from dataclasses import dataclass

from foundation.suggestions import closest
from orchestrator.control.observe.view import ClusterView
from orchestrator.errors import InvalidInput
from orchestrator.records import NodeKind, NodeRecord

NODE, SITE = "node", "site"
KINDS = (NODE, "application", "machine", "zone", "domain", SITE)

FIELD = "without"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedLoss:
    """Something that is lost, and the hosts that go with it."""

    kind: str
    name: str
    hosts: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def possible_losses(view: ClusterView) -> tuple[AssumedLoss, ...]:
    """Everything that can be lost alone, in the order of `KINDS`."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, host in sorted(view.hosts.items()):
        for group in _groups_of(host):
            found.setdefault(group, []).append(name)
    order = sorted(found.items(), key=lambda each: (KINDS.index(each[0][0]), each[0][1]))
    return tuple(
        AssumedLoss(kind=kind, name=name, hosts=tuple(hosts)) for (kind, name), hosts in order
    )


def named_loss(view: ClusterView, text: str) -> AssumedLoss:
    """What is written as `without`: a node, or a kind and a name.

    Raises
    ------
    InvalidInput
        There is no such thing.
    """
    kind, colon, name = text.partition(":")
    if not colon:
        kind, name = NODE, text
    if kind not in KINDS:
        raise InvalidInput(
            "", FIELD, text, f"names {kind!r}, which is no kind of what can be lost",
            f"Write NODE, or {', '.join(f'{each}:NAME' for each in KINDS[1:])}.",
        )  # fmt: skip
    every = possible_losses(view)
    known = {each.name: each for each in every if each.kind == kind}
    if name in known:
        return known[name]
    others = [f"{each.kind}:{each.name}" for each in every if each.name == name]
    close = closest(name, known) if not others else " or ".join(others)
    told = f"Did you mean {close}?" if close else f"There are {', '.join(known) or 'none'}."
    raise InvalidInput("", FIELD, text, f"is no {kind} that runs", told)


def _groups_of(host: NodeRecord) -> list[tuple[str, str]]:
    """Kind and name of all that a host is lost with."""
    kind = SITE if host.kind is NodeKind.SITE else NODE
    return [(kind, host.node), *host.labels.groups]
