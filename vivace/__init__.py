"""Send tuples to a Vivace cluster and follow its results, from any Python program.

>>> import vivace
>>> site = vivace.connect("http://127.0.0.1:8080")
>>> site.stream("north").send({"icao24": ["3c6444"], "altitude": [3000.0]})
Sent(accepted=1, late=0, ahead=0, repeated=0, undecided=0, waiting=0)
>>> for batch in site.results("alerts"):
...     print(batch.to_pylist())

It needs nothing of the cluster but the address of a site, and the token if the site asks for one.
"""

from __future__ import annotations

from vivace.client import Site, connect
from vivace.exchange import Refused, Unavailable
from vivace.stream import Sent, Stream

__all__ = ["Refused", "Sent", "Site", "Stream", "Unavailable", "connect"]
