"""The table of operations.

From it come the routes of the HTTP API, its OpenAPI document, the methods of clients, and the table
in docs/api.md.
"""

from __future__ import annotations

from typing import Any

from orchestrator.operations.operation import AccessRole, Manner, Operation
from orchestrator.operations.parameters import (
    ApplyParameters,
    ApplyPlanParameters,
    AutomationParameters,
    BreakParameters,
    CordonParameters,
    DeleteParameters,
    DescribeParameters,
    DrainParameters,
    DrillParameters,
    DrillSeriesParameters,
    EventsParameters,
    ExplainParameters,
    FollowParameters,
    HistoryParameters,
    LogsParameters,
    ManifestParameters,
    MoveParameters,
    NewSavepointParameters,
    Parameters,
    PauseParameters,
    PredictParameters,
    PreviewParameters,
    QueryParameters,
    RebalanceParameters,
    RevokeParameters,
    SavepointParameters,
    SendParameters,
    StreamParameters,
    SwitchoverParameters,
    TailParameters,
    TokenParameters,
    UndoParameters,
    VerifyParameters,
    WhatIfParameters,
    WithdrawParameters,
)
from orchestrator.records import FragmentExplanation, PlanDocument, PlanFile, RefusalExplanation
from orchestrator.results.automation import AutomationStatus, ProposalStatus
from orchestrator.results.changes import Applied
from orchestrator.results.commands import CordonedDocument, DeletedDocument, WithdrawnDocument
from orchestrator.results.coordinate_map import CoordinateMap
from orchestrator.results.drill_report import DrillReport
from orchestrator.results.drills import DrillAudit, DrillDocument, DrillRun
from orchestrator.results.inspection import Description, LogDocument, StoredRecords, Topology
from orchestrator.results.maintenance import MaintenanceDocument
from orchestrator.results.metrics import MetricsDocument
from orchestrator.results.moves import MovePlansDocument, MovesDocument
from orchestrator.results.operations import OperationStatus
from orchestrator.results.pauses import QueryPause
from orchestrator.results.preflight import VersionsDocument
from orchestrator.results.savepoints import SavepointsDocument, SavepointStatus
from orchestrator.results.status import (
    EventDocument,
    FragmentStatus,
    HistoryDocument,
    NodeStatus,
    OutputStatus,
    QueryStatus,
    StatusDocument,
    StreamStatus,
)
from orchestrator.results.streams import SentLines, StreamEntry, TailEvent
from orchestrator.results.tokens import NewToken, TokensDocument
from orchestrator.results.validation import ValidateDocument
from orchestrator.results.verification import VerifyDocument
from orchestrator.results.whatif import WhatIfDocument

READ, OPERATE = AccessRole.READ, AccessRole.OPERATE
LONG = Manner.LONG

STATUS = Operation(
    name="status", method="GET", path="status", verb="status",
    parameters=Parameters, result=StatusDocument, role=READ,
    summary="The state of the cluster: nodes, fragments, streams, outputs, problems.",
)  # fmt: skip

HISTORY = Operation(
    name="history", method="GET", path="history", verb="history",
    parameters=HistoryParameters, result=HistoryDocument, role=READ,
    summary="The newest events, oldest first.",
)  # fmt: skip

METRICS = Operation(
    name="metrics", method="GET", path="metrics", verb="metrics",
    parameters=Parameters, result=MetricsDocument, role=READ,
    summary="Every figure of the cluster; `/metrics` has them in Prometheus' text format.",
)  # fmt: skip

NODES = Operation(
    name="nodes", method="GET", path="nodes", verb="get nodes",
    parameters=Parameters, result=tuple[NodeStatus, ...], role=READ,
    summary="The hosts there are.",
)  # fmt: skip

QUERIES = Operation(
    name="queries", method="GET", path="queries", verb="get queries",
    parameters=Parameters, result=tuple[QueryStatus, ...], role=READ,
    summary="The queries there are, what they promise, and whether they keep it.",
)  # fmt: skip

STREAMS = Operation(
    name="streams", method="GET", path="streams", verb="get streams",
    parameters=Parameters, result=tuple[StreamStatus, ...], role=READ,
    summary="The streams that enter, and where.",
)  # fmt: skip

FRAGMENTS = Operation(
    name="fragments", method="GET", path="fragments", verb="get fragments",
    parameters=Parameters, result=tuple[FragmentStatus, ...], role=READ,
    summary="The fragments there are, where they run, and how well they are protected.",
)  # fmt: skip

OUTPUTS = Operation(
    name="outputs", method="GET", path="outputs", verb="get outputs",
    parameters=Parameters, result=tuple[OutputStatus, ...], role=READ,
    summary="The streams that leave, with latencies against deadlines.",
)  # fmt: skip

DESCRIBE = Operation(
    name="describe", method="GET", path="describe/{kind}/{name}", verb="describe",
    parameters=DescribeParameters, result=Description, role=READ,
    summary="All that is known of one node, query, stream, fragment, output, plan of moves or "
    "proposal.",
)  # fmt: skip

TOPOLOGY = Operation(
    name="topology", method="GET", path="topology", verb="topology",
    parameters=Parameters, result=Topology, role=READ,
    summary="Coordinates of hosts with their errors, and the round trips among them.",
)  # fmt: skip

VERSIONS = Operation(
    name="versions", method="GET", path="versions",
    parameters=Parameters, result=VersionsDocument, role=READ,
    summary="What the processes of the cluster understand, for a version that is to replace them.",
)  # fmt: skip

LOGS = Operation(
    name="logs", method="GET", path="logs/{process}", verb="logs",
    parameters=LogsParameters, result=LogDocument, role=OPERATE,
    summary="The last lines of a process's log, if this API can read it; else where it is.",
)  # fmt: skip

RECORDS = Operation(
    name="records", method="GET", path="records",
    parameters=Parameters, result=StoredRecords, role=OPERATE,
    summary="What the store holds, without secrets and the content of streams.",
)  # fmt: skip

PLAN = Operation(
    name="plan", method="GET", path="plan", verb="plan",
    parameters=Parameters, result=PlanDocument, role=READ,
    summary="Where fragments run, and what that promises.",
)  # fmt: skip

PREVIEW = Operation(
    name="preview", method="POST", path="plan", verb="plan",
    parameters=PreviewParameters, result=PlanDocument, role=OPERATE,
    summary="The plan as it would be if manifests were applied. Changes nothing.",
)  # fmt: skip

EXPLAIN = Operation(
    name="explain", method="GET", path="fragments/{fragment}/explanation", verb="explain",
    parameters=ExplainParameters, result=FragmentExplanation, role=READ,
    summary="Why the replicas of a fragment are where they are: each node's price and obstacle.",
)  # fmt: skip

EXPLAIN_REFUSAL = Operation(
    name="explain-refusal", method="POST", path="explain", verb="explain -f",
    parameters=ManifestParameters, result=RefusalExplanation, role=OPERATE,
    summary="Why manifests would be refused, and what would have to change. Changes nothing.",
)  # fmt: skip

MAP = Operation(
    name="map", method="GET", path="map",
    parameters=Parameters, result=CoordinateMap, role=READ,
    summary="Hosts in latency space, the fragments on them, and the streams among them.",
)  # fmt: skip

PREVIEW_MAP = Operation(
    name="preview-map", method="POST", path="map",
    parameters=ManifestParameters, result=CoordinateMap, role=OPERATE,
    summary="The map as it would be if manifests were applied. Changes nothing.",
)  # fmt: skip

VALIDATE = Operation(
    name="validate", method="POST", path="validate", verb="validate",
    parameters=ManifestParameters, result=ValidateDocument, role=OPERATE,
    summary="Check manifests by themselves: fields, statements, names. Changes nothing.",
)  # fmt: skip

APPLY = Operation(
    name="apply", method="POST", path="apply", verb="apply",
    parameters=ApplyParameters, result=Applied, role=OPERATE, manner=LONG,
    changes=True,
    summary="Bring streams and queries into the cluster.",
)  # fmt: skip

DELETE = Operation(
    name="delete", method="POST", path="delete", verb="delete",
    parameters=DeleteParameters, result=DeletedDocument, role=OPERATE, manner=LONG,
    changes=True,
    summary="Delete queries and streams.",
)  # fmt: skip

PAUSE = Operation(
    name="pause", method="POST", path="queries/{query}/pause", verb="pause",
    parameters=QueryParameters, result=QueryPause, role=OPERATE, manner=LONG, changes=True,
    summary="Have a query give no results, and keep its state and its place.",
)  # fmt: skip

RESUME = Operation(
    name="resume", method="POST", path="queries/{query}/resume", verb="resume",
    parameters=QueryParameters, result=QueryPause, role=OPERATE, manner=LONG, changes=True,
    summary="Have a paused query go on where it was.",
)  # fmt: skip

MOVE = Operation(
    name="move", method="POST", path="fragments/{fragment}/move", verb="move",
    parameters=MoveParameters, result=MovesDocument, role=OPERATE, manner=LONG,
    changes=True,
    summary="Bring one replica of a fragment to another node.",
)  # fmt: skip

SWITCHOVER = Operation(
    name="switchover", method="POST", path="fragments/{fragment}/switchover", verb="switchover",
    parameters=SwitchoverParameters, result=MovesDocument, role=OPERATE, manner=LONG,
    changes=True,
    summary="Have primary and secondary of a fragment change roles.",
)  # fmt: skip

WITHDRAW = Operation(
    name="withdraw", method="POST", path="fragments/{fragment}/withdraw", verb="move --abort",
    parameters=WithdrawParameters, result=WithdrawnDocument, role=OPERATE,
    changes=True,
    summary="Take back the moves of a fragment that are under way.",
)  # fmt: skip

REBALANCE = Operation(
    name="rebalance", method="POST", path="rebalance", verb="rebalance",
    parameters=RebalanceParameters, result=PlanFile, role=OPERATE, manner=LONG,
    summary="Plan the moves that are worth it. Changes nothing.",
)  # fmt: skip

UNDO = Operation(
    name="undo", method="POST", path="undo", verb="undo --dry-run",
    parameters=UndoParameters, result=PlanFile, role=OPERATE, manner=LONG,
    summary="Plan the way back of a plan of moves. Changes nothing.",
)  # fmt: skip

APPLY_PLAN = Operation(
    name="apply-plan", method="POST", path="plan/apply", verb="apply PLAN",
    parameters=ApplyPlanParameters, result=MovesDocument, role=OPERATE, manner=LONG,
    changes=True,
    summary="Carry out a plan of moves exactly, or say what is no longer as it was.",
)  # fmt: skip

MOVES = Operation(
    name="moves", method="GET", path="moves", verb="moves",
    parameters=Parameters, result=MovePlansDocument, role=READ,
    summary="Plans of moves, under way and ended, and how far they are.",
)  # fmt: skip

PROPOSALS = Operation(
    name="proposals", method="GET", path="proposals", verb="get proposals",
    parameters=Parameters, result=tuple[ProposalStatus, ...], role=READ,
    summary="The moves that the leader proposes by itself, if there are any.",
)  # fmt: skip

AUTOMATION = Operation(
    name="automation", method="GET", path="automation", verb="automation",
    parameters=Parameters, result=AutomationStatus, role=READ,
    summary="What the leader does about moves that nobody asks for, and what it has moved.",
)  # fmt: skip

AUTOMATION_SET = Operation(
    name="automation-set", method="POST", path="automation", verb="automation MODE",
    parameters=AutomationParameters, result=AutomationStatus, role=OPERATE, changes=True,
    summary="Have the leader propose moves, or make them, or neither; and how many an hour.",
)  # fmt: skip

AUTOMATION_PAUSE = Operation(
    name="automation-pause", method="POST", path="automation/pause", verb="automation --pause",
    parameters=PauseParameters, result=AutomationStatus, role=OPERATE, changes=True,
    summary="Have nothing planned or moved that nobody asks for.",
)  # fmt: skip

AUTOMATION_RESUME = Operation(
    name="automation-resume", method="POST", path="automation/resume", verb="automation --resume",
    parameters=Parameters, result=AutomationStatus, role=OPERATE, changes=True,
    summary="End a pause of that.",
)  # fmt: skip

DRAIN = Operation(
    name="drain", method="POST", path="nodes/{node}/drain", verb="drain",
    parameters=DrainParameters, result=MovesDocument, role=OPERATE, manner=LONG,
    changes=True,
    summary="Cordon a node, and bring everything that runs there to other nodes.",
)  # fmt: skip

CORDON = Operation(
    name="cordon", method="POST", path="nodes/{node}/cordon", verb="cordon",
    parameters=CordonParameters, result=CordonedDocument, role=OPERATE,
    changes=True,
    summary="Have nothing new placed on a node.",
)  # fmt: skip

UNCORDON = Operation(
    name="uncordon", method="POST", path="nodes/{node}/uncordon", verb="uncordon",
    parameters=CordonParameters, result=CordonedDocument, role=OPERATE,
    changes=True,
    summary="Let a node be used again.",
)  # fmt: skip

MAINTENANCE = Operation(
    name="maintenance", method="GET", path="maintenance", verb="maintenance show",
    parameters=Parameters, result=MaintenanceDocument, role=READ,
    summary="The process whose turn it is to leave and to be replaced, and those that wait.",
)  # fmt: skip

MAINTENANCE_BREAK = Operation(
    name="maintenance-break", method="POST", path="maintenance/break", verb="maintenance break",
    parameters=BreakParameters, result=MaintenanceDocument, role=OPERATE, changes=True,
    summary="Take the maintenance slot from the process that has it.",
)  # fmt: skip

SAVEPOINTS = Operation(
    name="savepoints", method="GET", path="savepoints", verb="savepoint list",
    parameters=Parameters, result=SavepointsDocument, role=READ,
    summary="The savepoints there are.",
)  # fmt: skip

SAVEPOINT = Operation(
    name="savepoint", method="GET", path="savepoints/{savepoint}", verb="savepoint show",
    parameters=SavepointParameters, result=SavepointStatus, role=READ,
    summary="One savepoint, with the state of each fragment.",
)  # fmt: skip

SAVEPOINT_CREATE = Operation(
    name="savepoint-create", method="POST", path="savepoints", verb="savepoint create",
    parameters=NewSavepointParameters, result=SavepointStatus, role=OPERATE, manner=LONG,
    changes=True,
    summary="Keep the state of all queries under a name, until it is deleted.",
)  # fmt: skip

SAVEPOINT_DELETE = Operation(
    name="savepoint-delete", method="POST", path="savepoints/{savepoint}/delete",
    verb="savepoint delete",
    parameters=SavepointParameters, result=SavepointsDocument, role=OPERATE, manner=LONG,
    changes=True,
    summary="Delete a savepoint with its files; the savepoints that are left.",
)  # fmt: skip

DRILLS = Operation(
    name="drills", method="GET", path="drills", verb="drill list",
    parameters=Parameters, result=tuple[DrillDocument, ...], role=READ,
    summary="The drills there are.",
)  # fmt: skip

DRILL_AUDIT = Operation(
    name="drill-audit", method="GET", path="drills/audit", verb="drill report",
    parameters=Parameters, result=DrillAudit, role=READ,
    summary="Which drill was run when, with which result, and which never was.",
)  # fmt: skip

DRILL = Operation(
    name="drill", method="POST", path="drills/{drill}/run", verb="drill run",
    parameters=DrillParameters, result=DrillReport, role=OPERATE, manner=LONG,
    changes=True,
    summary="Have something fail on purpose, and measure the consequences.",
)  # fmt: skip

DRILL_SERIES = Operation(
    name="drill-series", method="POST", path="drills/run", verb="drill run --all",
    parameters=DrillSeriesParameters, result=tuple[DrillRun, ...], role=OPERATE, manner=LONG,
    changes=True,
    summary="Run drills one after the other.",
)  # fmt: skip

PREDICT = Operation(
    name="predict", method="POST", path="drills/{drill}/predict", verb="drill run --simulate",
    parameters=PredictParameters, result=DrillReport, role=OPERATE, manner=LONG,
    summary="Play a drill in the simulated world. Changes nothing.",
)  # fmt: skip

WHAT_IF = Operation(
    name="what-if", method="POST", path="whatif", verb="whatif",
    parameters=WhatIfParameters, result=WhatIfDocument, role=OPERATE, manner=LONG,
    summary="What the leader would decide if something were lost, added or otherwise. "
    "Changes nothing.",
)  # fmt: skip

VERIFY = Operation(
    name="verify", method="POST", path="queries/{query}/verify", verb="verify",
    parameters=VerifyParameters, result=VerifyDocument, role=OPERATE, manner=LONG,
    summary="Compute archived results again, and compare. Changes nothing.",
)  # fmt: skip

STREAM = Operation(
    name="stream", method="GET", path="streams/{stream}",
    parameters=StreamParameters, result=StreamEntry, role=READ,
    summary="Where a stream enters whose source is `http`, and what it takes.",
)  # fmt: skip

SEND = Operation(
    name="send", method="POST", path="streams/{stream}/send", verb="send",
    parameters=SendParameters, result=SentLines, role=OPERATE,
    summary="Send lines into a stream whose source is `http`.",
)  # fmt: skip

TAIL = Operation(
    name="tail", method="GET", path="streams/{stream}/tail", verb="tail",
    parameters=TailParameters, result=TailEvent, role=READ, manner=Manner.STREAM,
    summary="Follow a stream's tuples, from the oldest that is still kept.",
)  # fmt: skip

OPERATION = Operation(
    name="operation", method="GET", path="operations/{operation}",
    parameters=FollowParameters, result=OperationStatus, role=READ,
    summary="A long operation: how far it is, and its result.",
)  # fmt: skip

OPERATION_EVENTS = Operation(
    name="operation-events", method="GET", path="operations/{operation}/events",
    parameters=FollowParameters, result=OperationStatus, role=READ, manner=Manner.STREAM,
    summary="Follow a long operation to its result.",
)  # fmt: skip

OPERATION_CANCEL = Operation(
    name="operation-cancel", method="DELETE", path="operations/{operation}",
    verb="operations cancel",
    parameters=FollowParameters, result=OperationStatus, role=OPERATE, changes=True,
    summary="Have a long operation end at its next step.",
)  # fmt: skip

EVENTS = Operation(
    name="events", method="GET", path="events",
    parameters=EventsParameters, result=EventDocument, role=READ, manner=Manner.STREAM,
    summary="Follow the history.",
)  # fmt: skip

TOKENS = Operation(
    name="tokens", method="GET", path="tokens", verb="token list",
    parameters=Parameters, result=TokensDocument, role=OPERATE,
    summary="The tokens there are.",
)  # fmt: skip

TOKEN_CREATE = Operation(
    name="token-create", method="POST", path="tokens", verb="token create",
    parameters=TokenParameters, result=NewToken, role=OPERATE, changes=True,
    summary="Draw a token. It is shown this once.",
)  # fmt: skip

TOKEN_REVOKE = Operation(
    name="token-revoke", method="DELETE", path="tokens/{token}", verb="token revoke",
    parameters=RevokeParameters, result=TokensDocument, role=OPERATE, changes=True,
    summary="Have a token permit nothing any more; the tokens that are left.",
)  # fmt: skip

OPERATIONS: tuple[Operation[Any, Any], ...] = (
    STATUS, HISTORY, METRICS, NODES, QUERIES, STREAMS, FRAGMENTS, OUTPUTS, DESCRIBE, TOPOLOGY,
    VERSIONS, LOGS, RECORDS, PLAN, PREVIEW, EXPLAIN, EXPLAIN_REFUSAL, MAP, PREVIEW_MAP, VALIDATE,
    APPLY, DELETE, PAUSE, RESUME, MOVE, SWITCHOVER, WITHDRAW, DRAIN, CORDON, UNCORDON,
    REBALANCE, APPLY_PLAN, MOVES, UNDO,
    MAINTENANCE, MAINTENANCE_BREAK,
    SAVEPOINTS, SAVEPOINT, SAVEPOINT_CREATE, SAVEPOINT_DELETE,
    PROPOSALS, AUTOMATION, AUTOMATION_SET,
    AUTOMATION_PAUSE, AUTOMATION_RESUME,
    DRILLS, DRILL_AUDIT, DRILL, DRILL_SERIES, PREDICT, WHAT_IF, VERIFY,
    STREAM, SEND, TAIL, EVENTS, OPERATION, OPERATION_EVENTS, OPERATION_CANCEL,
    TOKENS, TOKEN_CREATE, TOKEN_REVOKE,
)  # fmt: skip
"""In the order in which the documentation has them."""
