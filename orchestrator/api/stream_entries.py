"""Streams that clients send to: what their sites take, and where."""

from __future__ import annotations

from foundation.suggestions import nearest
from orchestrator.api.connection import Cluster
from orchestrator.control.observe.view import read_view
from orchestrator.errors import InvalidInput, Unreachable
from orchestrator.results.streams import StreamEntry


def stream_entry(cluster: Cluster, stream: str) -> StreamEntry:
    """Where a stream enters that clients send to.

    Raises
    ------
    InvalidInput
        There is no such stream, or it takes no tuples from clients.
    Unreachable
        Its site does not have it open.
    """
    view = read_view(cluster.store)
    records = view.stream_records
    if stream not in records:
        raise InvalidInput(
            "", "stream", stream, "is no stream from outside", nearest(stream, records)
        )
    record = records[stream]
    if record.source is None or record.source.driver != "http":
        problem = "takes no lines: it has no source"
        if record.source is not None:
            problem = f"takes no lines: its source is `{record.source.driver}`"
        open_ones = sorted(
            name for name, each in records.items() if each.source and each.source.driver == "http"
        )
        here = ", ".join(open_ones) or "none"
        raise InvalidInput(
            "",
            "stream",
            stream,
            problem,
            f"Only streams with `from: http` take lines; here: {here}.",
        )
    feeding_site = view.entering[stream].feeding_site
    site = view.hosts.get(feeding_site)
    status = None if site is None else site.sources.get(stream)
    if status is None or status.input is None or status.input.address is None:
        raise Unreachable(
            f"Stream {stream}", feeding_site, "is not open", "`vivace status` says why."
        )
    return StreamEntry(stream=record, site=feeding_site, address=status.input.address)
