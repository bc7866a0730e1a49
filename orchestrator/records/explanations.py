"""Why a fragment is where it is, and what would have to change for a refused query to be admitted.

Costs are in the planner's currency, bytes/s × s = bytes (`docs/placement.md`).
"""

from __future__ import annotations

from orchestrator.records.base import Record
from placement.methods import Method


class PullingStream(Record, frozen=True, kw_only=True):
    """A stream to or from a replica.

    Attributes
    ----------
    fragment, is_secondary, node
        The replica, source or sink at its other end; empty if those are readers in other queries.
    incoming
        Whether it comes from there.
    cost_bytes
        What it costs at present; nothing if it flows there anyway.
    """

    fragment: str
    is_secondary: bool
    node: str
    incoming: bool
    rate_bytes_s: float
    latency_ms: float
    cost_bytes: float


class CandidatePrice(Record, frozen=True, kw_only=True):
    """What a replica costs on a node, bytes, and the obstacle to it.

    Attributes
    ----------
    usage_bytes, standby_bytes
        Of its streams to and from primaries, and to or as a secondary.
    load_bytes
        Load price: its own, and by how much it raises that of others there.
    total_bytes
        All of it.
    reason, problem
        What stands against the node, in a word, and with figures and limits; None where it is.
    """

    node: str
    usage_bytes: float
    standby_bytes: float
    load_bytes: float
    total_bytes: float
    reason: str | None = None
    problem: str | None = None


class ReplicaPlace(Record, frozen=True, kw_only=True):
    """Why one replica is on its node.

    Attributes
    ----------
    streams
        Those with the greatest rates first.
    candidates
        All live nodes, cheapest first; its own among them.
    binding
        The constraint that keeps it from the cheapest node; None if it is there, or if only the
        effort of moving keeps it away.
    """

    node: str
    streams: tuple[PullingStream, ...]
    candidates: tuple[CandidatePrice, ...]
    binding: str | None


class FragmentExplanation(Record, frozen=True, kw_only=True, tag_field="of", tag="fragment"):
    """Why a fragment's replicas are where they are.

    Attributes
    ----------
    measured
        Whether the rates of all its streams were measured; those of manifests count for others.
    method
        How operators are placed. The prices are Vivace's whatever it is.
    """

    query: str
    fragment: str
    """`<query>.<fragment>`."""
    primary: ReplicaPlace
    secondary: ReplicaPlace
    measured: bool
    method: Method = Method.VIVACE

    @property
    def as_printed(self) -> bool:
        """Whether operators are placed by the papers' methods."""
        return self.method is Method.PAPER

    def _repr_html_(self) -> str:
        from orchestrator.records.html import html

        return html(self)


class NeededChange(Record, frozen=True, kw_only=True):
    """What would admit a refused query, all else as it is.

    Attributes
    ----------
    field
        `deadline`, `recoveryBound`, both of them, or `load`: room on nodes and machines.
    stated, needed
        As the manifest has it, and the least that would do, to within 3 %, ms; None of load.
    """

    query: str
    field: str
    stated: tuple[float, ...] = ()
    needed: tuple[float, ...] = ()


class RefusalExplanation(Record, frozen=True, kw_only=True, tag_field="of", tag="refusal"):
    """Why manifests are refused, and what would help.

    Attributes
    ----------
    problem
        The binding constraint, with figures; None: they would be admitted.
    remedy
        What the leader advises.
    changes
        Each alone would do; none if no such change helps.
    """

    problem: str | None = None
    remedy: str = ""
    changes: tuple[NeededChange, ...] = ()

    def _repr_html_(self) -> str:
        from orchestrator.records.html import html

        return html(self)
