"""The Spark applications of a cluster, and which of its nodes each of them runs.

A Spark driver that dies takes its executors along, so the replicas of a fragment run in different
applications if there are several. A manifest lists the nodes of each application, or it says how
many there are.

If it lists them, no node changes its application when another node, or an application, is added or
removed. If it counts them, the nodes are put into groups, each of a node and those nearest to it,
one for each application, and the members of a group go to different applications: each node has a
near one in every other application. That suits clusters that start as a whole, on one machine:
with another number of nodes, nodes may change their application. Nodes of one `domain` of the
manifest, which fail together anyway, then stay in one application.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import msgspec

from orchestrator.manifest.kinds import ClusterManifest, PlaceManifest

Delays = Mapping[str, Mapping[str, float]]
"""One-way delays between regions, ms; empty: links are not delayed."""


class SparkApplication(msgspec.Struct, frozen=True, kw_only=True):
    """A Spark application.

    Attributes
    ----------
    zone
        Where the manifest has it run; empty: it does not say.
    """

    name: str
    nodes: tuple[PlaceManifest, ...]
    zone: str = ""


def applications_of(manifest: ClusterManifest, delays_ms: Delays) -> tuple[SparkApplication, ...]:
    """The applications, each with its nodes in the order of the manifest.

    Parameters
    ----------
    delays_ms
        Of the cluster's record.
    """
    listed = manifest.applications
    if isinstance(listed, int):
        return tuple(
            SparkApplication(name=f"application-{number}", nodes=nodes)
            for number, nodes in enumerate(_spread(manifest.nodes, listed, delays_ms), 1)
        )
    return tuple(
        SparkApplication(
            name=each.name,
            nodes=tuple(place for place in manifest.nodes if place.name in each.nodes),
            zone=each.zone,
        )
        for each in listed
    )


def _spread(
    nodes: Sequence[PlaceManifest], count: int, delays_ms: Delays
) -> tuple[tuple[PlaceManifest, ...], ...]:
    """The nodes of each of so many applications."""
    places: dict[str, list[PlaceManifest]] = {}
    for place in nodes:
        places.setdefault(place.domain or f"\0{place.name}", []).append(place)
    left = list(places.values())
    found: list[list[PlaceManifest]] = [[] for _ in range(count)]
    while left:
        group = _nearest(left, len(found), delays_ms)
        left = [each for each in left if each not in group]
        # The application with the fewest nodes gets the largest domain; the first ones, if equal.
        emptiest = sorted(found, key=len)
        for chosen, members in zip(emptiest, sorted(group, key=len, reverse=True), strict=False):
            chosen += members
    order = {place: number for number, place in enumerate(nodes)}
    return tuple(tuple(sorted(chosen, key=order.__getitem__)) for chosen in found)


def _nearest(
    left: Sequence[list[PlaceManifest]], count: int, delays_ms: Delays
) -> list[list[PlaceManifest]]:
    """The two nearest domains that are left, and those that are nearest to them."""
    if len(left) <= count:
        return list(left)
    if count == 1:
        return [left[0]]
    # The first pair of those that are equally near.
    group = list(min(combinations(left, 2), key=lambda pair: _distance_ms(*pair, delays_ms)))
    while len(group) < count:
        others = [each for each in left if each not in group]
        group.append(
            min(others, key=lambda each: sum(_distance_ms(each, one, delays_ms) for one in group))
        )
    return group


def _distance_ms(
    here: Sequence[PlaceManifest], there: Sequence[PlaceManifest], delays_ms: Delays
) -> float:
    """The least delay between nodes of two domains."""
    return min(
        (delays_ms.get(a.region, {}).get(b.region, 0.0) for a in here for b in there), default=0.0
    )
