"""The queries of a savepoint, as they ran when it was taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from orchestrator.checkpoints.savepoint import stored_in
from orchestrator.checkpoints.savepoint_index import SavepointIndex
from orchestrator.control.observe.dataflow import Dataflow, sound_dataflow
from orchestrator.records import (
    FragmentRecord,
    QueryRecord,
    RunningQueryRecord,
    StoredCheckpoint,
)
from orchestrator.store.protocol import QUERIES


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedQueries:
    """What a savepoint knows of its queries.

    Attributes
    ----------
    name
        Of the savepoint.
    queries, flow
        As they were applied, and their dataflow.
    running
        How they ran; and that they begin from the savepoint, as what their sinks know.
    fragments, stored
        The record of each fragment, and its checkpoint in the savepoint.
    left_out
        Fragment without a checkpoint → why.
    """

    name: str
    queries: Mapping[str, QueryRecord]
    flow: Dataflow
    running: Mapping[str, RunningQueryRecord]
    fragments: Mapping[str, FragmentRecord]
    stored: Mapping[str, StoredCheckpoint]
    left_out: Mapping[str, str]

    @staticmethod
    def of(index: SavepointIndex) -> SavedQueries:
        """Those of a savepoint."""
        queries = {each.name: each for each in index.queries}
        running = {each.name: each for each in index.running_queries}
        flow, _ = sound_dataflow({each.name: each for each in index.streams}, queries, running)
        return SavedQueries(
            name=index.name,
            queries=queries,
            flow=flow,
            running={
                name: msgspec.structs.replace(
                    running.get(name, RunningQueryRecord(name=name)),
                    savepoint=index.name,
                    life=index.numbers[QUERIES.key(name).path],
                )
                for name in queries
            },
            fragments={each.key: each for each in index.fragments},
            stored={
                each.fragment: msgspec.structs.replace(each.stored, name=stored_in(index.name))
                for each in index.saved
            },
            left_out=index.left_out,
        )
