"""Work with Vivace clusters from any Python program.

A cluster, by its HTTP API (`vivace.cluster`):

>>> import vivace
>>> cluster = vivace.connect()
>>> cluster.status().problems
()

A site of a cluster, to send tuples and to follow results (`vivace.client`):

>>> site = vivace.site("http://127.0.0.1:8080")
>>> site.stream("north").send({"icao24": ["3c6444"], "altitude": [3000.0]})
Sent(accepted=1, late=0, ahead=0, repeated=0, undecided=0, waiting=0)
>>> for batch in site.results("alerts"):
...     print(batch.to_pylist())

Both need nothing but an address, and the token if one is asked for. Modules are imported when a
name of theirs is first used.
"""

# Others take the names that are imported here for type checkers.
# pyright: reportUnusedImport=false

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.errors import VivaceError
    from vivace.client import Site, site
    from vivace.cluster import ClusterClient, connect
    from vivace.exchange import Refused, Unavailable
    from vivace.stream import Sent, Stream

__all__ = [
    "ClusterClient", "Refused", "Sent", "Site", "Stream", "Unavailable", "VivaceError", "connect",
    "site",
]  # fmt: skip

_homes = {
    "ClusterClient": "vivace.cluster",
    "Refused": "vivace.exchange",
    "Sent": "vivace.stream",
    "Site": "vivace.client",
    "Stream": "vivace.stream",
    "Unavailable": "vivace.exchange",
    "VivaceError": "orchestrator.errors",
    "connect": "vivace.cluster",
    "site": "vivace.client",
}


def __getattr__(name: str) -> object:
    if name not in _homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_homes[name]), name)
    globals()[name] = found
    return found
