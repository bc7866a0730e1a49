"""The planner's settings, in one place."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, auto

from placement.equilibrium import UsageSettings
from placement.errors import check_numbers
from placement.methods import Method
from placement.program import MilpSettings
from placement.relaxation import RelaxationSettings
from placement.secondaries import SecondarySearch
from topology.cpu import DEFAULT_SCALING, Scaling


class Placer(Enum):
    """How primaries are chosen; see `placement.primaries`."""

    NEAREST = auto()
    EXACT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How plans are made.

    Attributes
    ----------
    cpu
        CPU axis: the milliseconds that a load counts for.
    operator_load
        Cores that an operator's replica is taken to use until it is measured.
    hop_overhead_ms
        Per-hop overhead besides a link's latency: batching, queueing in sockets, serialisation.
    crossing_ms
        Price that the exact placer puts on a link between two nodes besides its latency, ms. What
        travels is encoded, sent and read, and evaluated apart; operators that follow each other on
        a node are evaluated together.
    placer, secondary_search
        The product's, or those of reliable placement, §4.4 and §4.5: `Placer.NEAREST`,
        `SecondarySearch.OUTWARDS`.
    candidates
        Nodes per operator, nearest first, among which the exact placer chooses, also when a
        deadline was missed.
    exact_hosts
        Size of networks of which every host counts as a possible secondary while primaries are
        chosen; in larger ones only the candidates do.
    relaxation
        δ and F_t of Algorithm 3.
    usage
        How exactly the exact placer's points minimise network usage; they only choose candidates.
    milp
        Of graphs that are no trees, and of missed deadlines.
    batch_size
        B of the standby scheme: tuples that an upstream sends to a secondary at once. 1: Active
        Standby. Standby traffic is priced as if all tuples were sent.
    """

    cpu: Scaling = DEFAULT_SCALING
    operator_load: float = 0.2
    hop_overhead_ms: float = 2.0
    crossing_ms: float = 0.0
    placer: Placer = Placer.EXACT
    secondary_search: SecondarySearch = SecondarySearch.CHEAPEST
    candidates: int = 8
    exact_hosts: int = 128
    relaxation: RelaxationSettings = field(default_factory=RelaxationSettings)
    usage: UsageSettings = field(default_factory=lambda: UsageSettings(tolerance=0.01))
    milp: MilpSettings = field(default_factory=MilpSettings)
    batch_size: int = 1

    def __post_init__(self) -> None:
        check_numbers(self, operator_load="≥ 0", hop_overhead_ms="≥ 0", crossing_ms="≥ 0")
        check_numbers(self, candidates="≥ 1", exact_hosts="≥ 1", batch_size="≥ 1")

    def by(self, method: Method) -> Settings:
        """The same with the steps of a method."""
        if method is Method.VIVACE:
            return self
        return replace(self, placer=Placer.NEAREST, secondary_search=SecondarySearch.OUTWARDS)

    @property
    def as_printed(self) -> bool:
        """Whether both steps are those of reliable placement."""
        outwards = self.secondary_search is SecondarySearch.OUTWARDS
        return self.placer is Placer.NEAREST and outwards
