"""A cluster whose store is open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.store.protocol import Store

if TYPE_CHECKING:
    # They come with ZooKeeper's client, which most operations do not need.
    from orchestrator.deploy.config import ProcessConfig
    from orchestrator.deploy.context import ClusterContext


LOCAL = "local"
"""Who asks with the cluster's secret."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A connected cluster: the first argument of every operation of the API.

    Attributes
    ----------
    reach
        How to reach it.
    store
        Its open store.
    by
        Who asks, for the history.
    """

    reach: ClusterContext | ProcessConfig
    store: Store
    by: str = LOCAL

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.reach.cluster
