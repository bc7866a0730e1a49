"""Records of the store: one type for each kind of znode.

Every record is plain data: JSON in ZooKeeper, decoded strictly into these types. A *replica* is
identified by its node and that node's *incarnation*. A restarted executor comes back under the same
node name with a new incarnation and without its former state, so an assignment for the former
incarnation must not be taken for one for the new.
"""

# Others take the names that are imported here.
# pyright: reportUnusedImport=false

from orchestrator.records.assignments import (
    Assignment,
    FragmentAssignment,
    SinkAssignment,
    SourceAssignment,
)
from orchestrator.records.automation import (
    AutomaticRequest,
    AutomationMode,
    AutomationRecord,
    ProposedMoves,
    QuietHours,
)
from orchestrator.records.base import (
    FailureLabels,
    HostSpec,
    LinkFault,
    NameClaim,
    NodeKind,
    Peer,
    Record,
    ReplicaId,
)
from orchestrator.records.changed_queries import (
    BeginFrom,
    ChangedField,
    ChangedQuery,
    ChangedStatement,
    QueryAlteration,
    StatementEffect,
)
from orchestrator.records.checkpoints import (
    CheckpointsRecord,
    Restoration,
    StateSpec,
    StoredCheckpoint,
    StoredPosition,
)
from orchestrator.records.durations import DurationsRecord, Histogram
from orchestrator.records.edges import EdgeCheck, EdgeFault
from orchestrator.records.explanations import (
    CandidatePrice,
    FragmentExplanation,
    NeededChange,
    PullingStream,
    RefusalExplanation,
    ReplicaPlace,
)
from orchestrator.records.figures import (
    FiguresRecord,
    FragmentCost,
    FragmentPlan,
    LoadsRecord,
    PlaceLoad,
    QueryPlan,
)
from orchestrator.records.fragments import (
    CordonRecord,
    DisturbedLink,
    FormerStatement,
    FragmentRecord,
    HistoryEvent,
    IssuedRecord,
    PauseRecord,
    PlanFigures,
    PlannedRestart,
    RecoverySplit,
    ReplicaLoss,
    Restarts,
    TakeOver,
    ThirdReplica,
    Timing,
)
from orchestrator.records.host_trials import HostTrial, Trial, TrialResult, TriedFragment
from orchestrator.records.hosts import (
    BatchingStatus,
    ClockOffset,
    ClocksRecord,
    CostStatus,
    HoldingStatus,
    HostLoad,
    Incident,
    InputStatus,
    LostInput,
    MemoryStatus,
    NodeCoordinate,
    NodeRecord,
    Processors,
    RecoveryStatus,
    ReplicaLoad,
    ReplicaStatus,
    ServicesRecord,
    SinkStatus,
    Skipped,
    SnapshotStatus,
    SourceStatus,
    WaitingInput,
)
from orchestrator.records.maintenance import Leaving, SlotRecord, TurnRecord
from orchestrator.records.moves import (
    MovePlan,
    MoveStep,
    PlannedMove,
    PlannedMoves,
    StatedFigures,
)
from orchestrator.records.operations import OperationRecord, OperationState, TokenRecord, WebRecord
from orchestrator.records.plan_files import (
    ApplyPlanRequest,
    Immovable,
    PlanFile,
    RebalanceRequest,
    UndoRequest,
)
from orchestrator.records.proposals import (
    ApplyRequest,
    DeleteRequest,
    Deletion,
    DrainRequest,
    ExplainRefusalRequest,
    ExplainRequest,
    MoveRequest,
    PlanDocument,
    ProposalRecord,
    QueryPlacement,
    Refusal,
    RequestRecord,
    SwitchRequest,
    Wish,
)
from orchestrator.records.rebalancing import (
    FragmentPlaces,
    QueryChange,
    RateUsed,
    RebalanceChange,
    RebalanceLimits,
    RebalanceMove,
    RebalancePlan,
    RefusedCandidate,
    RoundTripUsed,
    UnsurvivedLoss,
)
from orchestrator.records.running_queries import (
    Rewrite,
    RewriteKind,
    RunningQueryRecord,
    Tried,
)
from orchestrator.records.running_streams import RunningStreamRecord
from orchestrator.records.savepoints import (
    JournalCopy,
    SavedFile,
    SavepointPiece,
    SavepointRecord,
    SavepointState,
)
from orchestrator.records.spec import (
    DEFAULT_MEMORY_BYTES,
    ClusterRecord,
    DriverSpec,
    Estimate,
    Guarantee,
    Late,
    Loops,
    OnError,
    Overdue,
    Overflow,
    Partial,
    QueryManifest,
    QueryRecord,
    Scheme,
    Shed,
    SourceSpec,
    Standby,
    StreamManifest,
    StreamRecord,
)
from orchestrator.records.strikes import LONGEST_STRIKE_US, StrikeKind, StrikeRecord
