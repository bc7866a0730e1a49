"""Taking queries and streams out of a cluster.

The leader checks everything before it deletes anything, and carries out what it has accepted,
whatever becomes of the client.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from orchestrator.api.connection import Cluster
from orchestrator.api.proposals import ProposalClient
from orchestrator.control.observe.view import read_view
from orchestrator.manifest import Manifests
from orchestrator.progress import Progress, silent
from orchestrator.records import DeleteRequest
from orchestrator.results.changes import Deleted


def named_in(manifests: Manifests) -> list[str]:
    """The queries and streams that manifests name; those beside a stream go with it."""
    queries = [each.record.name for each in manifests.queries]
    streams = [each.record for each in manifests.streams]
    return [*queries, *(each.name for each in streams if each.beside is None)]


def delete(
    cluster: Cluster,
    *names: str,
    if_there: Collection[str] = (),
    keep_streams: bool = False,
    on_progress: Progress = silent,
) -> Deleted:
    """Delete queries, and the streams from outside that only they read; or streams without a query.

    Parameters
    ----------
    names
        Queries, or streams that no other query reads.
    if_there
        More of them, some of which may not be there: a stream goes with the last query that reads
        it.
    keep_streams
        Whether streams stay that nothing reads then, and those of `if_there`: a query that begins
        from a savepoint reads them again.

    Raises
    ------
    InvalidInput
        One is neither, or a query that stays reads what it makes. Nothing was changed.
    RecordInvalid
        One cannot be read. Nothing was changed.
    Refused
        Something that it rests on has changed meanwhile. Nothing was changed.
    Unreachable
        Nobody leads.
    """
    view = read_view(cluster.store)
    view.check_readable({*names, *if_there} - view.streams.keys() - view.queries.keys())
    with ProposalClient(cluster.store, on_progress) as client:
        wish = DeleteRequest(names=names, if_there=tuple(if_there), keep_streams=keep_streams)
        deletion = client.ask(wish).deletion
        assert deletion is not None
        client.consent()
    return Deleted(**msgspec.structs.asdict(deletion))
