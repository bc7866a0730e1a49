"""A cluster on paper with a folder of checkpoints and savepoints; no data flows."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from orchestrator.checkpoints.checkpoint_file import CheckpointHead, write
from orchestrator.checkpoints.checkpoint_folder import CheckpointFolder
from orchestrator.checkpoints.savepoint import KeptFiles, Savepoint, savepoints_of
from orchestrator.control.decide.savepoints import basis_of
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.control.savepoint_work import SavepointWork
from orchestrator.manifest import Manifests
from orchestrator.records import (
    CheckpointsRecord,
    Guarantee,
    SavepointPiece,
    SavepointRecord,
    SavepointState,
    SourceSpec,
    StateSpec,
    StoredCheckpoint,
    StoredPosition,
)
from orchestrator.store.protocol import CHECKPOINTS, CLUSTER, SAVEPOINTS
from tests.obedient_cluster import ObedientCluster, aircraft

AT_US = 5_000_000

READ_AGAIN = SourceSpec(driver="test", guarantee=Guarantee.REPLAYABLE, options={})
"""A source that has for good what checkpoints need."""

NEEDED = StoredPosition(next_seq=20, watermark_ms=2000)
"""Where the checkpoints stand in each input."""

REACHED = StoredPosition(next_seq=5, watermark_ms=2000)
"""Up to where their output goes."""


def entering_by(source: SourceSpec | None) -> Manifests:
    """The example, whose streams have this source."""
    made = aircraft()
    streams = [
        structs.replace(each, record=structs.replace(each.record, source=source))
        for each in made.streams
    ]
    return structs.replace(made, streams=tuple(streams))


class SavedCluster:
    """The aircraft example, with a checkpoint of each fragment.

    Parameters
    ----------
    manifest
        As of the cluster.
    source
        Of its streams; None: what they have is read once.

    Attributes
    ----------
    folder
        Of the checkpoints, or its URI.
    """

    def __init__(
        self, folder: Path | str, manifest: tuple[str, ...] = (), source: SourceSpec | None = None
    ) -> None:
        self.folder = str(folder)
        self.cluster = ObedientCluster(manifest=manifest)
        self.store = self.cluster.store
        found = self.store.get(CLUSTER)
        assert found is not None
        settings = structs.replace(found.record, state=StateSpec(folder=self.folder), id="first")
        self.store.update(CLUSTER, settings, found.version)
        self.manifests = entering_by(source)
        self.cluster.apply(self.manifests)
        self.cluster.settle()
        self.leads = True
        self.work = SavepointWork(self.store, lambda: self.leads, now_us=lambda: AT_US)
        self.checkpoints = CheckpointFolder(self.folder)
        for key in self.view.fragments:
            self._store(key)

    @property
    def view(self) -> ClusterView:
        """The store now."""
        return read_view(self.store)

    def _store(self, key: str) -> None:
        fragment = self.view.fragments[key].record
        inputs = self.view.dataflow.fragments[fragment.fragment].inputs
        generations = {n: s.running.generation for n, s in self.view.entering.items()}
        stored = StoredCheckpoint(
            name=f"{fragment.generation}-2000-n1.checkpoint",
            at_us=AT_US,
            generation=fragment.generation,
            inputs={name: (generations.get(name, fragment.generation), NEEDED) for name in inputs},
            log_base=StoredPosition(next_seq=0, watermark_ms=0),
            output=REACHED,
        )
        head = CheckpointHead(
            cluster="aircraft",
            cluster_id="first",
            query=fragment.query,
            fragment=fragment.fragment,
            program="p",
            vivace="0.1",
            wire=13,
            stored=stored,
        )
        self.checkpoints.write(key, stored.name, write(head, [key.encode(), b"state"]))
        record = CheckpointsRecord(
            query=fragment.query, fragment=fragment.fragment, stored=(stored,)
        )
        self.store.create(CHECKPOINTS.key(key), record)

    def begin(self, name: str = "before") -> SavepointRecord:
        """A savepoint whose checkpoints are chosen."""
        listed = {key: each.record.stored[0] for key, each in self.view.checkpoints.items()}
        record = SavepointRecord(
            name=name,
            asked_us=AT_US,
            state=SavepointState.COPYING,
            pieces=tuple(
                SavepointPiece(fragment=key, checkpoint=each.name, at_us=AT_US, bytes=1)
                for key, each in sorted(listed.items())
            ),
            basis=basis_of(self.view),
        )
        self.store.create(SAVEPOINTS.key(name), record)
        return record

    def record(self, name: str = "before") -> SavepointRecord:
        """Its record."""
        found = self.store.get(SAVEPOINTS.key(name))
        assert found is not None
        return found.record

    def save(self, name: str = "before") -> Savepoint:
        """A savepoint that is kept."""
        self.begin(name)
        while self.work.step():
            pass
        assert self.record(name).state is SavepointState.KEPT
        return Savepoint(KeptFiles(savepoints_of(self.folder).folder, name))

    def files(self, name: str = "before") -> list[str]:
        """Names of the files of a savepoint."""
        folder = Path(self.folder) / "savepoints" / name
        return sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []
