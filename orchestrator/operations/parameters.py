"""The parameters of the operations, as clients write them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from orchestrator.operations.texts import ManifestSource, NamedText
from orchestrator.records import AutomationMode, BeginFrom, PlanFile
from orchestrator.records.moves import LEAST_STATE_RATE_BYTES_S

Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]

TUPLE_ID = "^[0-9]{1,18}-[0-9]{1,18}$"
"""Generation and sequence number of a tuple."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all parameters; what has none takes these."""


class HistoryParameters(Parameters, frozen=True, kw_only=True):
    """The newest so many events."""

    limit: Count = 50


class ManifestParameters(Parameters, frozen=True, kw_only=True):
    """Manifests.

    Attributes
    ----------
    folder
        What the names of their files are relative to, if they are: the client's own folder. Paths
        in manifests are relative to the manifests' files.
    """

    manifests: tuple[ManifestSource, ...]
    folder: str = ""


class PreviewParameters(ManifestParameters, frozen=True, kw_only=True):
    """What is planned as if it were applied.

    Attributes
    ----------
    begin
        From where on statements of changed queries would read whose state cannot be kept.
    savepoint
        With whose states new queries would begin; empty: from nothing.
    """

    begin: BeginFrom = BeginFrom.NOW
    savepoint: str = ""


class WhatIfParameters(ManifestParameters, frozen=True, kw_only=True):
    """What is assumed to be otherwise; see `orchestrator.api.whatif.what_if`.

    Attributes
    ----------
    manifests
        Streams and queries that are assumed to be applied.
    without
        What is assumed to be lost: nodes, and `<kind>:<name>`.
    load
        By how much more comes in.
    latency
        Round trips, each `A:B=DURATION`.
    add_node
        Nodes, each `NAME=like:NODE`.
    each
        Whether everything that can be lost is, one after the other, instead of `without`.
    play_s
        For how many virtual seconds it is played in the simulated world; None: it is not.
    """

    manifests: tuple[ManifestSource, ...] = ()
    without: tuple[str, ...] = ()
    load: float = 1.0
    latency: tuple[str, ...] = ()
    add_node: tuple[str, ...] = ()
    each: bool = False
    play_s: Annotated[float, msgspec.Meta(gt=0, le=3600)] | None = None


class ApplyParameters(ManifestParameters, frozen=True, kw_only=True):
    """What is applied; see `orchestrator.api.applying.apply`."""

    dry_run: bool = False
    wait: bool = True
    begin: BeginFrom = BeginFrom.NOW
    savepoint: str = ""


class DeleteParameters(Parameters, frozen=True, kw_only=True):
    """Queries and streams that are deleted, by name or as manifests name them.

    What manifests name may be absent; what is named itself must be there.

    Attributes
    ----------
    keep_streams
        Whether streams stay that nothing reads then, also those that manifests name.
    """

    names: tuple[str, ...] = ()
    manifests: tuple[ManifestSource, ...] = ()
    folder: str = ""
    keep_streams: bool = False


class MoveParameters(Parameters, frozen=True, kw_only=True):
    """A replica that goes to another node."""

    fragment: str
    role: Literal["primary", "secondary"]
    node: str
    dry_run: bool = False
    wait: bool = True


class RebalanceParameters(Parameters, frozen=True, kw_only=True):
    """What a plan may improve, in order, and how much it may move.

    Attributes
    ----------
    goals
        `network`, `balance`, `recovery`, `deadline-slack` or `evacuate:NODE`; none: `network`.
    """

    goals: tuple[str, ...] = ()
    max_moves: Count = 10
    max_bytes: Annotated[float, msgspec.Meta(ge=0)] | None = None
    query: str | None = None


class AutomationParameters(Parameters, frozen=True, kw_only=True):
    """What is wanted of moves that nobody asks for; null: as before.

    Attributes
    ----------
    any_bytes
        Whether there is to be no budget of bytes.
    quiet
        Hours of each day, UTC, such as `22:00-06:00`.
    """

    mode: AutomationMode | None = None
    moves_an_hour: Count | None = None
    bytes_an_hour: Annotated[float, msgspec.Meta(ge=0)] | None = None
    any_bytes: bool = False
    quiet: tuple[str, ...] | None = None


class PauseParameters(Parameters, frozen=True, kw_only=True):
    """For how long nothing is moved that nobody asks for; null: until it is resumed."""

    for_s: Annotated[float, msgspec.Meta(gt=0, le=366 * 86_400)] | None = None


class QueryParameters(Parameters, frozen=True, kw_only=True):
    """A query, by its name."""

    query: str


class UndoParameters(Parameters, frozen=True, kw_only=True):
    """A plan of moves that is taken back; none: the newest."""

    plan: str | None = None


class ApplyPlanParameters(Parameters, frozen=True, kw_only=True):
    """A plan that is carried out exactly.

    Attributes
    ----------
    throttle_bytes_s
        Most bytes a second that a host sends of a state; the cluster may say less.
    """

    plan: PlanFile
    at_a_time: Count = 1
    keep_going: bool = False
    throttle_bytes_s: Annotated[float, msgspec.Meta(ge=LEAST_STATE_RATE_BYTES_S)] | None = None
    dry_run: bool = False
    wait: bool = True


class SwitchoverParameters(Parameters, frozen=True, kw_only=True):
    """A fragment whose replicas change roles."""

    fragment: str
    dry_run: bool = False
    wait: bool = True


class ExplainParameters(Parameters, frozen=True, kw_only=True):
    """A fragment whose places are explained."""

    fragment: str


class WithdrawParameters(Parameters, frozen=True, kw_only=True):
    """A fragment whose moves are taken back."""

    fragment: str


class DrainParameters(Parameters, frozen=True, kw_only=True):
    """A node that everything leaves, so many fragments at a time."""

    node: str
    at_a_time: Count = 1
    dry_run: bool = False
    wait: bool = True


class CordonParameters(Parameters, frozen=True, kw_only=True):
    """A node that is kept free, or used again."""

    node: str
    dry_run: bool = False


class BreakParameters(Parameters, frozen=True, kw_only=True):
    """The maintenance slot is taken from whoever has it."""

    dry_run: bool = False


class SavepointParameters(Parameters, frozen=True, kw_only=True):
    """A savepoint, by its name."""

    savepoint: str


class NewSavepointParameters(Parameters, frozen=True, kw_only=True):
    """A savepoint that is made; null: its name is date and time."""

    savepoint: str | None = None


class PredictParameters(Parameters, frozen=True, kw_only=True):
    """A drill, and what it strikes; None: it chooses."""

    drill: str
    target: str | None = None


class DrillParameters(PredictParameters, frozen=True, kw_only=True):
    """A drill that is run; see `orchestrator.api.drilling.drill`."""

    force: bool = False
    predicted_ms: float | None = None


class DrillSeriesParameters(Parameters, frozen=True, kw_only=True):
    """Drills one after the other; without names all of them."""

    drills: tuple[str, ...] = ()
    target: str | None = None
    times: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    force: bool = False
    compare: bool = False


class VerifyParameters(Parameters, frozen=True, kw_only=True):
    """A query, the timestamps to compare, and statements of Spark SQL instead of its own."""

    query: str
    begin_ms: int | None = None
    until_ms: int | None = None
    last_ms: int | None = None
    everything: bool = False
    sql: NamedText | None = None


class SendParameters(Parameters, frozen=True, kw_only=True):
    """Lines for a stream.

    Attributes
    ----------
    lines
        CSV with a line that names the columns, or JSON; whole lines.
    written
        None: as the first line looks.
    is_sorted
        Whether they are sent in the order of event time.
    skip_bad
        Whether lines that cannot be read are left out; else the first one ends it.
    """

    stream: str
    lines: str
    written: Literal["csv", "json"] | None = None
    is_sorted: bool = False
    skip_bad: bool = False


class StreamParameters(Parameters, frozen=True, kw_only=True):
    """A stream."""

    stream: str


class TailParameters(Parameters, frozen=True, kw_only=True):
    """A stream that is followed until so many tuples have come.

    Attributes
    ----------
    after
        The id of an event: from the next tuple on. The header `Last-Event-ID` wins over it.
    """

    stream: str
    limit: Count | None = None
    after: Annotated[str, msgspec.Meta(pattern=TUPLE_ID)] | None = None


class FollowParameters(Parameters, frozen=True, kw_only=True):
    """A long operation, by the name of its record."""

    operation: str


class EventsParameters(Parameters, frozen=True, kw_only=True):
    """Events after the one of this sequence number; None: those to come.

    The header `Last-Event-ID` wins over it.
    """

    after: int | None = None


class DescribeParameters(Parameters, frozen=True, kw_only=True):
    """A thing, by its kind and name; a fragment with or without its query in front."""

    kind: str
    name: str


class LogsParameters(Parameters, frozen=True, kw_only=True):
    """A process, and how many of the last lines of its log."""

    process: str
    lines: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 200


class TokenParameters(Parameters, frozen=True, kw_only=True):
    """What a new token permits, for how many days, and whom it is for."""

    role: Literal["read", "operate"] = "read"
    days: Annotated[float, msgspec.Meta(gt=0, le=36_500)] | None = None
    note: Annotated[str, msgspec.Meta(max_length=200)] = ""


class RevokeParameters(Parameters, frozen=True, kw_only=True):
    """A token, by its id."""

    token: str
