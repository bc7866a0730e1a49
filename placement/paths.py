"""The way of a tuple through a plan, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence


def way(path: Sequence[str]) -> str:
    """A path in one line.

    Parameters
    ----------
    path
        Its stops, `operator @ node`. An operator that is pinned and named after its node, as a sink
        is, is told by the node alone.

    Examples
    --------
    >>> way(["alerts @ paris", "alerts at desk @ desk"])
    'alerts @ paris → desk'
    """
    return " → ".join(re.sub(r"^.* at (\S+) @ \1$", r"\1", stop) for stop in path)
