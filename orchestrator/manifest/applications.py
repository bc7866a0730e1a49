"""The Spark applications of a cluster, and which of its nodes each of them runs.

A Spark driver that dies takes its executors along, so a Spark application is a failure domain. The
two replicas of a fragment run in different applications, and each node should therefore have a near
node in every other application. The nodes are put into groups, each of a node and those nearest to
it, one for each application; the members of a group go to different applications.

Nodes of one `domain` of the manifest fail together anyway. They stay together: an application runs
all nodes of a domain or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from orchestrator.errors import InvalidInput
from orchestrator.manifest.kinds import ClusterManifest, PlaceManifest

Delays = Mapping[str, Mapping[str, float]]
"""One-way delays between regions, ms; empty: links are not delayed."""


def spread(manifest: ClusterManifest, delays_ms: Delays) -> tuple[tuple[PlaceManifest, ...], ...]:
    """The nodes of each application, in the manifest's order.

    Parameters
    ----------
    delays_ms
        Of the cluster's record.
    """
    places: dict[str, list[PlaceManifest]] = {}
    for place in manifest.nodes:
        places.setdefault(place.domain or f"\0{place.name}", []).append(place)
    left = list(places.values())
    found: list[list[PlaceManifest]] = [[] for _ in range(manifest.applications)]
    while left:
        group = _nearest(left, len(found), delays_ms)
        left = [each for each in left if each not in group]
        # The application with the fewest nodes gets the largest domain; the first ones, if equal.
        emptiest = sorted(found, key=len)
        for nodes, members in zip(emptiest, sorted(group, key=len, reverse=True), strict=False):
            nodes += members
    order = {place: number for number, place in enumerate(manifest.nodes)}
    return tuple(tuple(sorted(nodes, key=order.__getitem__)) for nodes in found)


def nodes_of(
    manifest: ClusterManifest, delays_ms: Delays, number: int
) -> tuple[PlaceManifest, ...]:
    """The nodes of one application, counted from 1.

    Raises
    ------
    InvalidInput
        There is no such application.
    """
    if not 1 <= number <= manifest.applications:
        problem = f"is no application of {manifest.file}"
        remedy = f"It has {manifest.applications}."
        raise InvalidInput(manifest.file, "application", number, problem, remedy)
    return spread(manifest, delays_ms)[number - 1]


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
