"""New queries that begin with the states that a savepoint of the cluster holds.

A query that was deleted comes back as it was when the savepoint was taken, and is changed, in the
same moment, into what its manifest says now. So the rules of changes in place decide which
statements keep their state (`control.planning.changing`), and a statement that differs counts from
a cut on, beyond all results that were delivered (`changing`).

The fragments are created as those of a paused query are, with the savepoint's checkpoints listed,
and go on as these do when it is resumed (`pausing`, `lost_fragments`): under the same numbers. The
query's sinks know it by its former number, so they go on, too, and drop what they have. A fragment
whose state cannot be used begins anew where results have come to. Which ones do is found out as the
leader will when they go on (`resuming`), in a view in which the query is there already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from foundation.suggestions import nearest
from orchestrator.checkpoints.checkpoint_file import CheckpointRefused
from orchestrator.checkpoints.savepoint import OpenSavepoint, Savepoint
from orchestrator.control.decide.admission import Admission
from orchestrator.control.decide.checkpoints import stored_of
from orchestrator.control.decide.decision import DecisionSettings, PendingDecision
from orchestrator.control.decide.resuming import Resumption
from orchestrator.control.decide.savepoints import NO_FOLDER
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.saved_queries import SavedQueries
from orchestrator.errors import InvalidInput
from orchestrator.records import (
    ChangedQuery,
    ChangedStatement,
    CheckpointsRecord,
    FormerStatement,
    FragmentRecord,
    PlannedRestart,
    QueryManifest,
    QueryPlacement,
    Record,
    SavepointState,
    StatementEffect,
    StoredCheckpoint,
    StreamManifest,
)
from orchestrator.records.versions import LEAST_WIRE, WIRE_VERSION
from orchestrator.store.protocol import Versioned

R = TypeVar("R", bound=Record)

OPTION = "--from"

LIST = "`vivace savepoint list` shows those that there are."

CHANGING = "its statement was about to change when the savepoint was taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What begins from a savepoint, as it will be told and carried out.

    Attributes
    ----------
    placements
        Those of the admission, with what the fragments go on from.
    checkpoints
        From the savepoint.
    told
        What becomes of each statement.
    """

    placements: tuple[QueryPlacement, ...]
    checkpoints: tuple[CheckpointsRecord, ...] = ()
    told: tuple[ChangedQuery, ...] = ()


def saved_queries(
    view: ClusterView, named: str, queries: Iterable[QueryManifest], open_savepoint: OpenSavepoint
) -> SavedQueries:
    """The queries of a savepoint, once it is known that the states of those that begin are whole.

    Raises
    ------
    InvalidInput
        There is none of that name, it cannot be used here, or no query begins from it.
    """
    found = view.savepoints.get(named)
    if view.settings.state is None:
        raise _wrong(named, "cannot be looked for", f"{NO_FOLDER[0].upper()}{NO_FOLDER[1:]}.")
    if found is None:
        remedy = nearest(named, view.savepoints) if view.savepoints else ""
        raise _wrong(named, "is no savepoint of this cluster", remedy or LIST)
    if found.record.state is not SavepointState.KEPT:
        raise _wrong(named, f"is a savepoint that is {found.record.state.value}", LIST)
    try:
        savepoint = open_savepoint(view.settings.state.folder, named)
        _check(view, named, savepoint)
        saved = SavedQueries.of(savepoint.index)
        for name in _beginning(view, named, queries, saved):
            for each in savepoint.index.saved:
                if each.fragment.startswith(f"{name}."):
                    savepoint.state_of(each.fragment)
    except CheckpointRefused as refused:
        remedy = "Begin from another savepoint, or anew, with --from now."
        raise _wrong(named, f"cannot be used: {refused}", remedy) from None
    return saved


def _wrong(named: str, problem: str, remedy: str) -> InvalidInput:
    return InvalidInput("command line", OPTION, named, problem, remedy)


def _check(view: ClusterView, named: str, savepoint: Savepoint) -> None:
    index = savepoint.index
    if index.cluster_id != view.settings.id:
        problem = f"was taken of another cluster, {index.cluster} ({index.cluster_id})"
        remedy = "A cluster begins from it with `vivace up --from`."
        raise _wrong(named, problem, remedy)
    if not LEAST_WIRE <= index.wire <= WIRE_VERSION:
        problem = f"was taken by Vivace {index.vivace} (wire {index.wire}), which this version"
        problem += f" (wire {LEAST_WIRE} to {WIRE_VERSION}) does not read"
        raise _wrong(named, problem, "Begin anew, with --from now.")


def _beginning(
    view: ClusterView, named: str, queries: Iterable[QueryManifest], saved: SavedQueries
) -> list[str]:
    """The queries that begin from a savepoint."""
    records = [each.record for each in queries]
    for record in records:
        known = view.queries.get(record.name)
        if known is not None and known.record != record:
            problem = f"holds states of query {record.name}, which runs, and has newer ones"
            remedy = f"Leave {OPTION} out to change it in place, or "
            remedy += f"`vivace delete {record.name} --keep-streams` first."
            raise _wrong(named, problem, remedy)
    new = [each.name for each in records if each.name not in view.queries]
    if not new:
        problem = "is of no use: the files name no query that does not run already"
        raise _wrong(
            named, problem, "`vivace delete NAME --keep-streams` first if a query is to go back."
        )
    if not (found := [name for name in new if name in saved.queries]):
        problem = f"has no state of query {', '.join(new)}"
        remedy = f"It is of {', '.join(sorted(saved.queries))}."
        raise _wrong(named, problem, remedy)
    return found


def begin_from(
    view: ClusterView,
    admission: Admission,
    saved: SavedQueries,
    streams: Iterable[StreamManifest],
    queries: Iterable[QueryManifest],
    number: int,
) -> Begun:
    """What becomes of the fragments of queries that begin from a savepoint.

    Parameters
    ----------
    admission
        With the places of all of them.
    streams, queries
        That are applied.
    number
        Of the change from what the savepoint has to what is applied.

    Raises
    ------
    InvalidInput
        No fragment of a query can go on from it.
    """
    choice = _Choice(view, admission, saved, number, streams, queries)
    choice.make()
    told = tuple(choice.told(name) for name in admission.begun)
    placements = tuple(
        msgspec.structs.replace(
            each,
            created=tuple(choice.continued.get(record.key, record) for record in each.created),
        )
        for each in admission.placements
    )
    checkpoints = tuple(
        CheckpointsRecord(
            query=choice.continued[key].query,
            fragment=choice.continued[key].fragment,
            stored=(stored,),
        )
        for key, stored in choice.stored.items()
        if key not in choice.anew
    )
    return Begun(placements=placements, checkpoints=checkpoints, told=told)


class _Choice:
    """Which fragments go on from the savepoint, and which begin anew.

    Attributes
    ----------
    stored
        Fragment → its state in the savepoint.
    anew
        Fragment that begins anew → why.
    continued
        Fragment that was in the savepoint → its record.
    """

    def __init__(
        self,
        view: ClusterView,
        admission: Admission,
        saved: SavedQueries,
        number: int,
        streams: Iterable[StreamManifest],
        queries: Iterable[QueryManifest],
    ) -> None:
        self._admission, self._saved, self._number = admission, saved, number
        self.stored: dict[str, StoredCheckpoint] = {}
        self.anew: dict[str, str] = {}
        self._created = {
            record.key: record
            for placed in admission.placements
            if placed.query in admission.begun
            for record in placed.created
            if record.key in saved.fragments
        }
        self.continued: dict[str, FragmentRecord] = {}
        self._goes_back: set[str] = set()
        self._pending = PendingDecision(
            _applied(view, admission, streams, queries), 0, DecisionSettings()
        )

    def make(self) -> None:
        """Look at each fragment by itself, then at all together."""
        listed = {key: stored_of(self._pending, key) for key in self._pending.fragments}
        for key in self._created:
            if key in self._saved.stored:
                self.stored[key] = self._saved.stored[key]
            self._continue(key)
        for key in self._created:
            if (why := self._why_alone(key)) is not None:
                self._give_up(key, why)
        for key, stored in self.stored.items():
            if key in self.anew:
                continue
            if (why := self._unreadable(Resumption(self._pending, {}), key, stored)) is not None:
                self._give_up(key, why)
        while True:
            wanted = {key: (each,) for key, each in self.stored.items() if key not in self.anew}
            resumption = Resumption(self._pending, listed | wanted)
            chosen = resumption.of(self._created)
            # A consumer that begins anew needs less of its producers: the last one comes first.
            flow = reversed([*self._admission.flow.fragments.values()])
            lost = [each.key for each in flow if each.key in wanted.keys() - chosen.keys()]
            if not lost:
                break
            self._give_up(lost[0], resumption.reasons[lost[0]])
        self._goes_back = chosen.keys() - self._created.keys()

    def told(self, query: str) -> ChangedQuery:
        """What becomes of a query's statements.

        Raises
        ------
        InvalidInput
            None of them goes on.
        """
        told = self._admission.begun[query].told
        if not any(key in self.stored and key not in self.anew for key in self._keys(query)):
            why = "; ".join(f"{key}: {self.anew[key]}" for key in self._keys(query))
            problem = f"has no state that query {query} could go on with: {why}"
            raise _wrong(self._saved.name, problem, "Begin anew, with --from now.")
        statements = tuple(self._statement(query, each) for each in told.statements)
        return msgspec.structs.replace(told, statements=statements, savepoint=self._saved.name)

    def _keys(self, query: str) -> list[str]:
        return [key for key, record in self._created.items() if record.query == query]

    def _statement(self, query: str, told: ChangedStatement) -> ChangedStatement:
        key = f"{query}.{told.fragment}"
        if (why := self.anew.get(key)) is not None:
            return ChangedStatement(fragment=told.fragment, effect=StatementEffect.ANEW, why=why)
        if told.effect is not StatementEffect.UNCHANGED:
            return told
        reads = self._admission.flow.fragments[told.fragment].inputs
        back = sorted(each for each in self._goes_back if each.partition(".")[2] in reads)
        why = f"{', '.join(back)} goes back to a checkpoint for it" if back else ""
        return ChangedStatement(fragment=told.fragment, effect=StatementEffect.KEPT, why=why)

    def _why_alone(self, key: str) -> str | None:
        """Why a fragment cannot go on, whatever the others do."""
        changes = self._admission.begun[self._created[key].query]
        was = self._saved.fragments[key]
        if (why := changes.restarted.get(key)) is not None:
            return why
        if was.changing is not None or was.restart is not None:
            return CHANGING
        if key not in self._saved.stored:
            return self._saved.left_out.get(key, "the savepoint has no state of it")
        return None

    def _unreadable(self, resumption: Resumption, key: str, stored: StoredCheckpoint) -> str | None:
        inputs = self._admission.flow.fragments[self._created[key].fragment].inputs
        if stored.inputs.keys() != inputs.keys():
            return "it reads other streams than the savepoint's"
        for name, (generation, _) in stored.inputs.items():
            maker = self._admission.flow.fragments.get(name)
            runs = None if maker is None else self._pending.fragments.get(maker.key)
            if runs is not None and not runs.paused and runs.generation != generation:
                return f"{name}, which it reads, has begun anew since"
        return resumption.why_unreadable(stored, now=True)

    def _give_up(self, key: str, why: str) -> None:
        """Have a fragment begin anew, and those that it leads to: what they had of it between the
        savepoint and their last results cannot be had again."""
        self.anew.setdefault(key, why)
        self._continue(key)
        name = self._created[key].fragment
        for reader in self._admission.flow.fragments.values():
            if name in reader.inputs and reader.key in self.stored.keys() - self.anew.keys():
                self._give_up(reader.key, f"{name}, which it reads, begins anew")

    def _continue(self, key: str) -> None:
        """Make the record of a fragment by what was found."""
        new, was = self._created[key], self._saved.fragments[key]
        if (why := self.anew.get(key)) is not None:
            restart = PlannedRestart(change=self._number, why=why, all_input=False)
            made = msgspec.structs.replace(new, paused=True, restart=restart)
        else:
            former = self._admission.begun[new.query].former.get(key)
            last = () if former is None else (_numbered(former, self._number),)
            made = msgspec.structs.replace(
                new,
                paused=True,
                generation=was.generation,
                begins=was.begins,
                counts_from_ms=was.counts_from_ms,
                ended_ms=was.ended_ms,
                former=(*was.former, *last),
                functions=was.functions,
            )
        self.continued[key] = self._pending.fragments[key] = made


def _numbered(former: FormerStatement, change: int) -> FormerStatement:
    return msgspec.structs.replace(former, change=change)


def _applied(
    view: ClusterView,
    admission: Admission,
    streams: Iterable[StreamManifest],
    queries: Iterable[QueryManifest],
) -> ClusterView:
    """The view as it will be once what is applied is there."""
    running = {name: admission.running[name] for name in admission.begun}
    return replace(
        view,
        streams=_new(view.streams, {each.record.name: each.record for each in streams}),
        queries=_new(view.queries, {each.record.name: each.record for each in queries}),
        running_queries={
            **view.running_queries,
            **{name: Versioned(record=each, version=0) for name, each in running.items()},
        },
    )


def _new(known: Mapping[str, Versioned[R]], records: Mapping[str, R]) -> dict[str, Versioned[R]]:
    new = {name: Versioned(record=each, version=0) for name, each in records.items()}
    return {**new, **known}
