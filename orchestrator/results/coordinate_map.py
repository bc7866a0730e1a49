"""The coordinate map as data."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.results.result import Result


class Place(Result, frozen=True, kw_only=True):
    """A host on the map: its coordinate, ms."""

    name: str
    position_ms: tuple[float, ...]
    is_site: bool


class Flow(Result, frozen=True, kw_only=True):
    """A stream of a query from one host to another; `standby` if it feeds a secondary."""

    query: str
    source: str
    target: str
    standby: bool


class CoordinateMap(Result, frozen=True, kw_only=True):
    """Hosts, and the streams among them.

    Attributes
    ----------
    primaries, secondaries
        Host → fragments it runs in that role.
    """

    title: str
    places: tuple[Place, ...]
    primaries: Mapping[str, list[str]]
    secondaries: Mapping[str, list[str]]
    flows: tuple[Flow, ...]
