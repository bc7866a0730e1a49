"""Opening a cluster that runs."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.deploy.context import ClusterContext, find, home
from orchestrator.store.protocol import Store

if TYPE_CHECKING:
    # It comes with ZooKeeper's client, which most operations do not need.
    from orchestrator.deploy.config import ProcessConfig


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


@contextmanager
def connect(name: str | None = None) -> Generator[Cluster]:
    """Connect to a cluster on this machine for the time of a block.

    Parameters
    ----------
    name
        The cluster's name; None if a single one runs here.

    Raises
    ------
    NoCluster
        There is no such cluster, or none at all.
    SeveralClusters
        Several run here, and none is named.
    Unreachable
        Its ZooKeeper does not answer.
    """
    context = find(name, home())
    with context.open_store() as store:
        yield Cluster(context, store)
