"""A cluster, as Python programs, notebooks and scheduled jobs see it.

Every method is an operation of the cluster's HTTP API, and returns the record that the command line
prints with `--json`. What it raises is what the operation raises: `orchestrator.errors`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from orchestrator.errors import InvalidInput
from orchestrator.operations import parameters as asked
from orchestrator.operations import table
from orchestrator.operations.texts import ManifestSource, NamedText, read_plan, read_sources
from orchestrator.progress import Progress, silent
from orchestrator.records import (
    AutomationMode,
    BeginFrom,
    ClusterRecord,
    FragmentExplanation,
    PlanDocument,
    PlanFile,
    RefusalExplanation,
)
from orchestrator.records.plan_files import UNNAMED
from orchestrator.records.versions import this_version
from orchestrator.results.automation import AutomationStatus, ProposalStatus
from orchestrator.results.changes import Applied, Deleted
from orchestrator.results.coordinate_map import CoordinateMap
from orchestrator.results.drill_report import DrillReport
from orchestrator.results.drills import DrillAudit, DrillDocument, DrillRun
from orchestrator.results.inspection import Description, LogDocument, StoredRecords, Topology
from orchestrator.results.maintenance import MaintenanceDocument
from orchestrator.results.metrics import Sample
from orchestrator.results.moves import CordonDocument, MovePlansDocument, MovesDocument
from orchestrator.results.operations import OperationStatus
from orchestrator.results.pauses import QueryPause
from orchestrator.results.preflight import PreflightDocument, VersionsDocument, obstacles
from orchestrator.results.savepoints import SavepointsDocument, SavepointStatus
from orchestrator.results.status import (
    EventDocument,
    FragmentStatus,
    NodeStatus,
    OutputStatus,
    QueryStatus,
    StatusDocument,
    StreamStatus,
)
from orchestrator.results.streams import TailEvent
from orchestrator.results.tokens import NewToken, TokenDocument
from orchestrator.results.validation import ValidateDocument
from orchestrator.results.verification import VerifyDocument
from orchestrator.results.whatif import WhatIfDocument
from vivace import contexts
from vivace.api_client import PATIENCE_S, ApiClient

if TYPE_CHECKING:
    # They come with Arrow, which whoever only asks does not need.
    import pyarrow as pa

    from vivace.client import Site
    from vivace.stream import Stream

PathLike = str | Path

NOTHING = asked.Parameters()


def connect(
    address: str | None = None,
    token: str | None = None,
    *,
    context: str | None = None,
    ca_file: str | None = None,
    patience_s: float = PATIENCE_S,
) -> ClusterClient:
    """A cluster, by its address or by a context; nothing is sent yet.

    Parameters
    ----------
    address, token
        Of its HTTP API. Without an address the context says both.
    context
        Name of a context that `vivace up` or `vivace config` has written. None: the one that
        `VIVACE_CONTEXT` names, `vivace config use` has chosen, or the only one.
    ca_file
        Certificates that vouch for the API's own.
    patience_s
        How long the API may be away.

    Raises
    ------
    NoCluster, SeveralClusters
        It is not clear which context is meant.
    ValueError
        It is no address.
    """
    if address is not None:
        return ClusterClient(address, token, ca_file=ca_file, patience_s=patience_s)
    named = context or next(filter(None, map(os.environ.get, contexts.NAME_VARIABLES)), None)
    name, found = contexts.find(named, contexts.home())
    remedy = f"Does it run? `vivace config list` shows the address of context {name}."
    if not found.api:
        raise contexts.NoCluster(f"cluster {name} is still starting; its log is in {found.logs}")
    if found.pid is not None:
        remedy = (
            f"Data flows on in cluster {name}. Its process ({found.pid}) starts the API again if "
            f"it ended: try again in a few seconds; {found.logs}/cluster.log says more."
        )
    return ClusterClient(
        found.api, token or found.token(), ca_file=ca_file or found.ca_file, remedy=remedy,
        patience_s=patience_s,
    )  # fmt: skip


class ClusterClient(ApiClient):
    """The operations of a cluster; see `connect`.

    Manifests are named as on the command line: files, or folders with YAML files.
    """

    def status(self) -> StatusDocument:
        """The state of the cluster: problems, nodes, fragments, streams, outputs."""
        return self.call(table.STATUS, NOTHING)

    def history(self, limit: int = 50) -> tuple[EventDocument, ...]:
        """The newest events, oldest first."""
        return self.call(table.HISTORY, asked.HistoryParameters(limit=limit)).history

    def events(self, after: int | None = None) -> Iterator[EventDocument]:
        """Events as they happen, for ever; first those after the one of this sequence number."""
        return self.follow(table.EVENTS, asked.EventsParameters(after=after))

    def metrics(self) -> tuple[Sample, ...]:
        """Every figure, under the names that Prometheus has for them."""
        return self.call(table.METRICS, NOTHING).metrics

    def nodes(self) -> tuple[NodeStatus, ...]:
        """The hosts there are."""
        return self.call(table.NODES, NOTHING)

    def queries(self) -> tuple[QueryStatus, ...]:
        """The queries there are, what they promise, and whether they keep it."""
        return self.call(table.QUERIES, NOTHING)

    def streams(self) -> tuple[StreamStatus, ...]:
        """The streams that enter, and where."""
        return self.call(table.STREAMS, NOTHING)

    def fragments(self) -> tuple[FragmentStatus, ...]:
        """The fragments there are, where they run, and how well they are protected."""
        return self.call(table.FRAGMENTS, NOTHING)

    def outputs(self) -> tuple[OutputStatus, ...]:
        """The streams that leave, with latencies against deadlines."""
        return self.call(table.OUTPUTS, NOTHING)

    def describe(self, kind: str, name: str) -> Description:
        """All that is known of one node, query, stream, fragment or output."""
        return self.call(table.DESCRIBE, asked.DescribeParameters(kind=kind, name=name))

    def topology(self) -> Topology:
        """Coordinates of hosts with their errors, and the round trips among them."""
        return self.call(table.TOPOLOGY, NOTHING)

    def logs(self, process: str, lines: int = 200) -> LogDocument:
        """The last lines of a process's log, if the API can read it; else where it is."""
        return self.call(table.LOGS, asked.LogsParameters(process=process, lines=lines))

    def records(self) -> StoredRecords:
        """What the store holds, without secrets and the content of streams."""
        return self.call(table.RECORDS, NOTHING)

    def plan(
        self,
        manifests: PathLike | Sequence[PathLike] = (),
        *,
        begin: BeginFrom = BeginFrom.NOW,
        savepoint: str = "",
    ) -> PlanDocument:
        """Where fragments run; with manifests, as if they were applied (`apply`)."""
        if not (sources := _sources(manifests)):
            return self.call(table.PLAN, NOTHING)
        given = asked.PreviewParameters(
            manifests=sources, folder=_here(), begin=begin, savepoint=savepoint
        )
        return self.call(table.PREVIEW, given)

    def explain(self, fragment: str) -> FragmentExplanation:
        """Why the replicas of a fragment are where they are."""
        return self.call(table.EXPLAIN, asked.ExplainParameters(fragment=fragment))

    def explain_refusal(self, manifests: PathLike | Sequence[PathLike]) -> RefusalExplanation:
        """Why manifests would be refused, and what would have to change."""
        given = asked.ManifestParameters(manifests=_sources(manifests), folder=_here())
        return self.call(table.EXPLAIN_REFUSAL, given)

    def versions(self) -> VersionsDocument:
        """What the processes of the cluster understand."""
        return self.call(table.VERSIONS, NOTHING)

    def preflight(self, settings: ClusterRecord | None = None) -> PreflightDocument:
        """What stands against replacing the cluster's processes by those of this version.

        Parameters
        ----------
        settings
            That the new processes will have; None: those of the cluster.
        """
        running, version = self.versions(), this_version()
        losses = self.what_if(each=True)
        found = obstacles(version, running, self.status(), losses, settings)
        return PreflightDocument(
            version=version, processes=running.processes, obstacles=tuple(found)
        )

    def coordinate_map(self, manifests: PathLike | Sequence[PathLike] = ()) -> CoordinateMap:
        """Hosts in latency space; with manifests, with their fragments."""
        if not (sources := _sources(manifests)):
            return self.call(table.MAP, NOTHING)
        given = asked.ManifestParameters(manifests=sources, folder=_here())
        return self.call(table.PREVIEW_MAP, given)

    def validate(self, manifests: PathLike | Sequence[PathLike]) -> ValidateDocument:
        """Check manifests by themselves."""
        given = asked.ManifestParameters(manifests=_sources(manifests), folder=_here())
        return self.call(table.VALIDATE, given)

    def apply(
        self,
        manifests: PathLike | Sequence[PathLike],
        *,
        dry_run: bool = False,
        wait: bool = True,
        begin: BeginFrom = BeginFrom.NOW,
        savepoint: str = "",
        on_progress: Progress = silent,
    ) -> Applied:
        """Bring streams and queries into the cluster; waits until all runs with warm standbys.

        A query that runs is changed in place; `begin` says from where on its statements read whose
        state cannot be kept. New queries begin with the states of `savepoint`, if it is named.
        """
        given = asked.ApplyParameters(
            manifests=_sources(manifests),
            folder=_here(),
            dry_run=dry_run,
            wait=wait,
            begin=begin,
            savepoint=savepoint,
        )
        return self.run(table.APPLY, given, on_progress)

    def delete(
        self,
        *names: str,
        manifests: PathLike | Sequence[PathLike] = (),
        keep_streams: bool = False,
        on_progress: Progress = silent,
    ) -> Deleted:
        """Delete queries and streams, by name or as manifests name them.

        A stream goes with the last query that reads it, unless streams are to be kept.
        """
        given = asked.DeleteParameters(
            names=names, manifests=_sources(manifests), folder=_here(), keep_streams=keep_streams
        )
        return self.run(table.DELETE, given, on_progress).deleted

    def move(
        self,
        fragment: str,
        role: Literal["primary", "secondary"],
        node: str,
        *,
        dry_run: bool = False,
        wait: bool = True,
        on_progress: Progress = silent,
    ) -> MovesDocument:
        """Bring one replica of a fragment to another node."""
        given = asked.MoveParameters(
            fragment=fragment, role=role, node=node, dry_run=dry_run, wait=wait
        )
        return self.run(table.MOVE, given, on_progress)

    def switchover(
        self,
        fragment: str,
        *,
        dry_run: bool = False,
        wait: bool = True,
        on_progress: Progress = silent,
    ) -> MovesDocument:
        """Have primary and secondary of a fragment change roles."""
        given = asked.SwitchoverParameters(fragment=fragment, dry_run=dry_run, wait=wait)
        return self.run(table.SWITCHOVER, given, on_progress)

    def withdraw(self, fragment: str) -> tuple[str, ...]:
        """Take back the moves of a fragment that are under way; the names of their plans."""
        given = asked.WithdrawParameters(fragment=fragment)
        return self.call(table.WITHDRAW, given).withdrawn

    def drain(
        self,
        node: str,
        *,
        at_a_time: int = 1,
        dry_run: bool = False,
        wait: bool = True,
        on_progress: Progress = silent,
    ) -> MovesDocument:
        """Cordon a node, and bring everything that runs there to other nodes."""
        given = asked.DrainParameters(node=node, at_a_time=at_a_time, dry_run=dry_run, wait=wait)
        return self.run(table.DRAIN, given, on_progress)

    def rebalance(
        self,
        *goals: str,
        max_moves: int = 10,
        max_bytes: float | None = None,
        query: str | None = None,
        on_progress: Progress = silent,
    ) -> PlanFile:
        """Plan the moves that are worth it; changes nothing."""
        given = asked.RebalanceParameters(
            goals=goals, max_moves=max_moves, max_bytes=max_bytes, query=query
        )
        return self.run(table.REBALANCE, given, on_progress)

    def undo(self, plan: str | None = None, *, on_progress: Progress = silent) -> PlanFile:
        """Plan the way back of a plan of moves, by default of the newest; changes nothing."""
        return self.run(table.UNDO, asked.UndoParameters(plan=plan), on_progress)

    def apply_plan(
        self,
        plan: PathLike | PlanFile,
        *,
        at_a_time: int = 1,
        keep_going: bool = False,
        throttle_bytes_s: float | None = None,
        dry_run: bool = False,
        wait: bool = True,
        on_progress: Progress = silent,
    ) -> MovesDocument:
        """Carry out exactly this plan, or the one in this file."""
        given = asked.ApplyPlanParameters(
            plan=plan if isinstance(plan, PlanFile) else read_plan(Path(plan)),
            at_a_time=at_a_time, keep_going=keep_going, throttle_bytes_s=throttle_bytes_s,
            dry_run=dry_run, wait=wait,
        )  # fmt: skip
        try:
            return self.run(table.APPLY_PLAN, given, on_progress)
        except InvalidInput as error:
            if error.file != UNNAMED or isinstance(plan, PlanFile):
                raise
            named = str(plan), error.field, error.value, error.problem, error.remedy
            raise InvalidInput(*named) from None

    def move_plans(self) -> MovePlansDocument:
        """Plans of moves, the newest first, and how far they are."""
        return self.call(table.MOVES, NOTHING)

    def proposal(self) -> ProposalStatus | None:
        """The moves that the leader proposes by itself; None: it proposes none."""
        return next(iter(self.call(table.PROPOSALS, NOTHING)), None)

    def automation(self) -> AutomationStatus:
        """What the leader does about moves that nobody asks for."""
        return self.call(table.AUTOMATION, NOTHING)

    def set_automation(
        self,
        mode: AutomationMode | str | None = None,
        *,
        moves_an_hour: int | None = None,
        bytes_an_hour: float | None = None,
        any_bytes: bool = False,
        quiet: Sequence[str] | None = None,
    ) -> AutomationStatus:
        """Want that otherwise: mode `off`, `propose` or `apply`; what is not given stays as it is.

        Raises
        ------
        ValueError
            There is no such mode.
        """
        given = asked.AutomationParameters(
            mode=None if mode is None else AutomationMode(mode),
            moves_an_hour=moves_an_hour, bytes_an_hour=bytes_an_hour, any_bytes=any_bytes,
            quiet=None if quiet is None else tuple(quiet),
        )  # fmt: skip
        return self.call(table.AUTOMATION_SET, given)

    def pause_automation(self, for_s: float | None = None) -> AutomationStatus:
        """Have nothing planned or moved that nobody asks for; for a while, or for good."""
        return self.call(table.AUTOMATION_PAUSE, asked.PauseParameters(for_s=for_s))

    def resume_automation(self) -> AutomationStatus:
        """End a pause of that."""
        return self.call(table.AUTOMATION_RESUME, NOTHING)

    def pause(self, query: str, *, on_progress: Progress = silent) -> QueryPause:
        """Have a query give no results, and keep its state and its place, until `resume`."""
        return self.run(table.PAUSE, asked.QueryParameters(query=query), on_progress)

    def resume(self, query: str, *, on_progress: Progress = silent) -> QueryPause:
        """Have a paused query go on where it was."""
        return self.run(table.RESUME, asked.QueryParameters(query=query), on_progress)

    def cordon(self, node: str, *, dry_run: bool = False) -> CordonDocument:
        """Have nothing new placed on a node."""
        given = asked.CordonParameters(node=node, dry_run=dry_run)
        return self.call(table.CORDON, given).cordon

    def uncordon(self, node: str, *, dry_run: bool = False) -> CordonDocument:
        """Let a node be used again."""
        given = asked.CordonParameters(node=node, dry_run=dry_run)
        return self.call(table.UNCORDON, given).cordon

    def maintenance(self) -> MaintenanceDocument:
        """Which process leaves at present, and which ones wait for their turn."""
        return self.call(table.MAINTENANCE, NOTHING)

    def break_maintenance(self, *, dry_run: bool = False) -> MaintenanceDocument:
        """Take the maintenance slot from the process that has it."""
        return self.call(table.MAINTENANCE_BREAK, asked.BreakParameters(dry_run=dry_run))

    def savepoints(self) -> SavepointsDocument:
        """The savepoints there are, the newest last."""
        return self.call(table.SAVEPOINTS, NOTHING)

    def savepoint(self, name: str) -> SavepointStatus:
        """One savepoint, with the state of each fragment."""
        return self.call(table.SAVEPOINT, asked.SavepointParameters(savepoint=name))

    def create_savepoint(
        self, name: str | None = None, *, on_progress: Progress = silent
    ) -> SavepointStatus:
        """Keep the state of all queries under a name, by default date and time."""
        given = asked.NewSavepointParameters(savepoint=name)
        return self.run(table.SAVEPOINT_CREATE, given, on_progress)

    def delete_savepoint(self, name: str, *, on_progress: Progress = silent) -> SavepointsDocument:
        """Delete a savepoint with its files; the savepoints that are left."""
        given = asked.SavepointParameters(savepoint=name)
        return self.run(table.SAVEPOINT_DELETE, given, on_progress)

    def drills(self) -> tuple[DrillDocument, ...]:
        """The drills there are."""
        return self.call(table.DRILLS, NOTHING)

    def drill_audit(self) -> DrillAudit:
        """Which drill was run when, with which result, and which never was."""
        return self.call(table.DRILL_AUDIT, NOTHING)

    def drill(
        self,
        drill: str,
        target: str | None = None,
        *,
        force: bool = False,
        predicted_ms: float | None = None,
        on_progress: Progress = silent,
    ) -> DrillReport:
        """Have something fail on purpose, and measure the consequences."""
        given = asked.DrillParameters(
            drill=drill, target=target, force=force, predicted_ms=predicted_ms
        )
        return self.run(table.DRILL, given, on_progress)

    def drill_series(
        self,
        *drills: str,
        target: str | None = None,
        times: int = 1,
        force: bool = False,
        compare: bool = False,
        on_progress: Progress = silent,
    ) -> tuple[DrillRun, ...]:
        """Run drills one after the other; without names all of them."""
        given = asked.DrillSeriesParameters(
            drills=drills, target=target, times=times, force=force, compare=compare
        )
        return self.run(table.DRILL_SERIES, given, on_progress)

    def predict(
        self, drill: str, target: str | None = None, on_progress: Progress = silent
    ) -> DrillReport:
        """Play a drill in the simulated world."""
        given = asked.PredictParameters(drill=drill, target=target)
        return self.run(table.PREDICT, given, on_progress)

    def what_if(
        self,
        *,
        without: Sequence[str] = (),
        load: float = 1.0,
        latency: Sequence[str] = (),
        add_query: PathLike | Sequence[PathLike] = (),
        add_node: Sequence[str] = (),
        each: bool = False,
        play_s: float | None = None,
        on_progress: Progress = silent,
    ) -> WhatIfDocument:
        """What the leader would decide if something were lost, added or otherwise."""
        given = asked.WhatIfParameters(
            manifests=_sources(add_query), folder=_here(), without=tuple(without), load=load,
            latency=tuple(latency), add_node=tuple(add_node), each=each, play_s=play_s,
        )  # fmt: skip
        return self.run(table.WHAT_IF, given, on_progress)

    def verify(
        self,
        query: str,
        *,
        begin_ms: int | None = None,
        until_ms: int | None = None,
        last_ms: int | None = None,
        everything: bool = False,
        sql: NamedText | None = None,
        on_progress: Progress = silent,
    ) -> VerifyDocument:
        """Compute archived results again, and compare."""
        given = asked.VerifyParameters(
            query=query, begin_ms=begin_ms, until_ms=until_ms, last_ms=last_ms,
            everything=everything, sql=sql,
        )  # fmt: skip
        return self.run(table.VERIFY, given, on_progress)

    def operation(self, name: str) -> OperationStatus:
        """A long operation, by the name of its record: how far it is, and its result."""
        return self.call(table.OPERATION, asked.FollowParameters(operation=name))

    def cancel(self, operation: str) -> OperationStatus:
        """Have a long operation end at its next step, by the name of its record."""
        given = asked.FollowParameters(operation=operation)
        return self.call(table.OPERATION_CANCEL, given)

    def tokens(self) -> tuple[TokenDocument, ...]:
        """The tokens of the API."""
        return self.call(table.TOKENS, NOTHING).tokens

    def create_token(
        self,
        role: Literal["read", "operate"] = "read",
        *,
        days: float | None = None,
        note: str = "",
    ) -> NewToken:
        """Draw a token, which is shown this once."""
        return self.call(table.TOKEN_CREATE, asked.TokenParameters(role=role, days=days, note=note))

    def revoke_token(self, token: str) -> tuple[TokenDocument, ...]:
        """Have a token permit nothing any more; the tokens that are left."""
        return self.call(table.TOKEN_REVOKE, asked.RevokeParameters(token=token)).tokens

    def tail(self, stream: str, limit: int | None = None) -> Iterator[TailEvent]:
        """Follow a stream's tuples, from the oldest that is kept; first of all come its columns.

        If the connection breaks, it goes on after the last tuple that has come.
        """
        given = asked.TailParameters(stream=stream, limit=limit)
        headed, left = False, limit
        for event in self.follow(table.TAIL, given):
            if event.batch is not None and left is not None:
                # A response that goes on where another one broke counts anew.
                rows = event.batch.rows[:left]
                left -= len(rows)
                event = msgspec.structs.replace(
                    event, batch=msgspec.structs.replace(event.batch, rows=rows)
                )
            elif event.columns is not None:
                if headed:
                    continue
                headed = True
            yield event
            if left == 0:
                return

    def stream(self, name: str, token: str | None = None) -> Stream:
        """A stream that enters by HTTP, to send tuples to, wherever it enters.

        Parameters
        ----------
        token
            What its site asks for.
        """
        return self._site(name, token).stream(name)

    def results(
        self, name: str, token: str | None = None, **where: Any
    ) -> Iterator[pa.RecordBatch]:
        """The tuples of an output that is read by HTTP; see `vivace.client.Site.results`."""
        return self._site(name, token).results(name, **where)

    def _site(self, name: str, token: str | None) -> Site:
        from vivace.client import site

        return site(lambda: self._address_of(name), token=token)

    def _address_of(self, name: str) -> str:
        """Where a stream enters or leaves now.

        Raises
        ------
        ConnectionError
            Nowhere, or not by HTTP.
        """
        status = self.status()
        found = [
            each.input.address for each in status.streams if each.stream == name and each.input
        ]
        found += [each.address for each in status.outputs if each.stream == name]
        if (address := next(filter(None, found), None)) is None:
            raise ConnectionError(f"stream {name} neither enters nor leaves by HTTP now")
        return address


def _sources(manifests: PathLike | Sequence[PathLike]) -> tuple[ManifestSource, ...]:
    paths = [manifests] if isinstance(manifests, (str, Path)) else manifests
    return read_sources([Path(path) for path in paths])


def _here() -> str:
    """What names of files are relative to."""
    return str(Path.cwd())
