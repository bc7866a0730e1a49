"""What the leader publishes of its planning: loads, costs, and what it promises each query."""

from __future__ import annotations

from orchestrator.records.base import Record
from placement.paths import way

MACHINE_SHARE = 0.8
"""Share of a machine's processors that hosts and services may take together. On two processors,
work that arrives at random waits at 0.8 for 1.8 times as long as it takes itself, at 0.85 for 2.6
times, at 0.95 for 9 times (M/M/2: ρ² / (1 − ρ²)); a host's turn takes up to 10 ms. At 0.85 some
recoveries took longer than their bound (benchmark `density`)."""


class PlaceLoad(Record, frozen=True, kw_only=True):
    """A node or site, or a machine that several of them share.

    Attributes
    ----------
    hosts
        On the machine; of a node, itself.
    limit_cores
        Up to which queries are admitted.
    predicted_cores
        By rates and costs of the fragments there, primaries and secondaries, and of replicas that
        were lost and will be placed there.
    measured_cores
        Of hosts, over the last ten seconds or so; None if it was not measured.
    services
        What coordinator, Spark and ZooKeeper have taken there over the same time.
    services_cores, takeover_cores
        What they will take, and what must stay free for a takeover.
    speed
        How fast its processors work just now; 1: as where the costs were found that are assumed.
    """

    name: str
    is_machine: bool
    hosts: tuple[str, ...]
    processors: float
    limit_cores: float
    predicted_cores: float
    measured_cores: float | None
    services: dict[str, float] = {}
    services_cores: float = 0.0
    takeover_cores: float = 0.0
    speed: float = 1.0


class FragmentCost(Record, frozen=True, kw_only=True):
    """What one replica of a fragment costs its node.

    Attributes
    ----------
    basis
        Where the cost is known from: measured, stated, tried or assumed.
    fixed_us, per_tuple_us
        Of an evaluation and of each tuple in it, processor time.
    evaluations_s, cores
        As predicted; `cores` with the overhead of the host.
    measured_evaluations_s, measured_timestamps_s, measured_tuples_s, measured_cores
        On the primary's node lately; `measured_cores` evaluating alone. None: not measured.
    suggestion
        The line for the manifest, if the stated cost is off; None if it is not, or none is stated.
    """

    query: str
    fragment: str
    basis: str
    fixed_us: float
    per_tuple_us: float
    evaluations_s: float
    cores: float
    measured_evaluations_s: float | None = None
    measured_timestamps_s: float | None = None
    measured_tuples_s: float | None = None
    measured_cores: float | None = None
    measured_cost_us: float | None = None
    suggestion: str | None = None


class FragmentPlan(Record, frozen=True, kw_only=True):
    """Where a fragment runs or is to run, and what that promises.

    Attributes
    ----------
    secondary, transfer_ms, recovery_ms
        None while no secondary runs: should the primary die then, the fragment's state is lost.
    runs
        Whether it is at these places now.
    domains
        What primary and secondary die with, as far as nodes differ in it, such as
        `application-1@m1`; empty if all nodes die together.
    shared
        What both of them share of that, such as `machine m1`: no other place keeps the promises.
    standby_bytes_s, standby_why
        What is sent because of the secondary, and why that; None while none runs.
    """

    query: str
    fragment: str
    primary: str
    secondary: str | None
    detection_ms: float
    transfer_ms: float | None
    reprocess_ms: float
    recovery_ms: float | None
    bound_ms: float
    runs: bool
    domains: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    standby_bytes_s: float | None = None
    standby_why: str | None = None


class QueryPlan(Record, frozen=True, kw_only=True):
    """What a plan promises a query.

    Attributes
    ----------
    latency_ms, path
        Of its slowest output.
    recovery_ms
        The longest of its fragments; None while one of them has no secondary.
    """

    query: str
    latency_ms: float
    deadline_ms: float
    recovery_ms: float | None
    bound_ms: float
    network_usage_bytes: float
    standby_usage_bytes: float
    path: tuple[str, ...]

    @property
    def way(self) -> str:
        """The path in one line; of an output only its site, which says it all."""
        return way(self.path)

    @property
    def slack_ms(self) -> float:
        """What the deadline leaves of the time."""
        return self.deadline_ms - self.latency_ms


class LoadsRecord(Record, frozen=True, kw_only=True):
    """`/loads` (ephemeral): how busy nodes and machines are, as the leader finds."""

    at_us: int
    """When it was computed, cluster clock, µs."""
    places: tuple[PlaceLoad, ...]
    omitted: int = 0
    """Places that are left out, so that the store takes the record."""


class FiguresRecord(Record, frozen=True, kw_only=True):
    """`/figures/<query>` (ephemeral): what a query costs and is promised, as the leader finds."""

    query: str
    at_us: int
    """When it was computed, cluster clock, µs."""
    costs: tuple[FragmentCost, ...]
    """Of its fragments, producers before consumers."""
    plan: QueryPlan | None = None
    """None: it does not run, or one of its sites is away."""
    fragments: tuple[FragmentPlan, ...] = ()
    """Those of that plan."""
    omitted: int = 0
    """Fragments that are left out, so that the store takes the record."""
