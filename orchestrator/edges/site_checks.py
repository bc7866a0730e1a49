"""A site looks at sources and sinks before they are applied there.

Whoever applies is perhaps on another machine: what files, ports and brokers there are at the site,
only the site knows. So the client leaves a record in the store (`EdgeCheck`), and the site writes
into it what it has found (`orchestrator.store.responding`).
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from orchestrator.edges import sinks, sources
from orchestrator.edges.drivers import DriverError, Unusable
from orchestrator.edges.site_check import SiteCheck
from orchestrator.records import EdgeCheck, EdgeFault, SinkAssignment, SourceAssignment
from orchestrator.store.protocol import CHECKS, Store
from orchestrator.store.responding import respond_to


class EdgeChecks:
    """Responds to the checks of one site.

    Parameters
    ----------
    folder
        The site's own; None if it has none.
    """

    def __init__(self, store: Store, site: str, folder: Path | None) -> None:
        self._store = store
        self._site = site
        self._folder = folder

    def respond(self) -> None:
        """Look at all that is asked for.

        Raises
        ------
        StoreError
            Call again.
        """
        respond_to(self._store, CHECKS, self._response_to)

    def _response_to(self, asked: EdgeCheck) -> EdgeCheck | None:
        if asked.site != self._site or asked.is_done:
            return None
        fault = self._fault(asked)
        folder = None if fault is not None else self._folder
        kept = {} if folder is None else _generations(asked.sinks, folder)
        return msgspec.structs.replace(asked, is_done=True, fault=fault, generations=kept)

    def _fault(self, asked: EdgeCheck) -> EdgeFault | None:
        """The first thing that is no good."""
        site = SiteCheck(folder=self._folder)
        for source in asked.sources:
            try:
                _check_source(source, site)
            except Exception as error:  # noqa: BLE001  A driver may fail in any way.
                return _blamed(source.stream, error)
        for sink in asked.sinks:
            try:
                _check_sink(sink, site)
            except Exception as error:  # noqa: BLE001
                return _blamed(sink.stream, error)
        return None


def _check_source(source: SourceAssignment, site: SiteCheck) -> None:
    if source.source is not None:
        sources.restore(source.source).check(source, site)


def _check_sink(sink: SinkAssignment, site: SiteCheck) -> None:
    if sink.sink is None and site.folder is None:
        # Such a site only measures.
        return
    spec = sink.sink or sinks.DEFAULT
    site.need_folder(None, None, f"what the sink {spec.driver} keeps")
    sinks.restore(spec).check(sink, site)


def _generations(asked: tuple[SinkAssignment, ...], folder: Path) -> dict[str, int]:
    """What sinks have kept of queries that go on; one that cannot tell has kept nothing."""
    found: dict[str, int] = {}
    for sink in asked:
        if sink.life:
            with suppress(DriverError):
                kept = sinks.restore(sink.sink or sinks.DEFAULT).kept(sink, folder)
                found |= {} if kept is None else {sink.stream: kept.generation}
    return found


def _blamed(stream: str, error: Exception) -> EdgeFault:
    if isinstance(error, Unusable):
        return EdgeFault(
            stream=stream,
            option=error.option,
            value=error.value,
            problem=error.problem,
            remedy=error.remedy,
        )
    return EdgeFault(
        stream=stream,
        option=None,
        value=None,
        problem=f"cannot be used at the site: {error or type(error).__name__}",
        remedy="Correct the manifest, or what it names at the site.",
    )
