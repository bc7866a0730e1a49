"""A site looks at sources and sinks before they are applied there.

Whoever applies is perhaps on another machine: what files, ports and brokers there are at the site,
only the site knows. So the client leaves a record in the store (`EdgeCheck`), and the site writes
into it what it has found. A thread of its own does that; the host's loop knows nothing of it.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from pathlib import Path

import msgspec

from orchestrator.edges import sinks, sources
from orchestrator.edges.drivers import Unusable
from orchestrator.edges.site_check import SiteCheck
from orchestrator.records import EdgeCheck, EdgeFault, SinkAssignment, SourceAssignment
from orchestrator.store.protocol import CHECKS, RecordMissing, Store, StoreError, VersionConflict

RETRY_S = 0.5
"""Time between two attempts while the store is away."""

STOP_TIMEOUT_S = 1.0
"""How long the end waits for a check; brokers may take longer, and nobody needs to know."""

_log = logging.getLogger("vivace.site")


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
        for name, found in self._store.list(CHECKS).records.items():
            asked = found.record
            if asked.site != self._site or asked.is_done:
                continue
            response = msgspec.structs.replace(asked, is_done=True, fault=self._fault(asked))
            # Whoever asked may have gone.
            with suppress(RecordMissing, VersionConflict):
                self._store.update(CHECKS.key(name), response, found.version)

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


class EdgeCheckThread:
    """Runs `EdgeChecks` whenever somebody asks."""

    def __init__(self, checks: EdgeChecks, store: Store) -> None:
        self._checks = checks
        self._something = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="edge-checks", daemon=True)
        self._watch = store.watch(CHECKS, self._something.set)
        self._thread.start()

    def close(self) -> None:
        """End, unless a check is under way: then the thread ends with the process."""
        self._watch.cancel()
        self._stopping = True
        self._something.set()
        self._thread.join(timeout=STOP_TIMEOUT_S)

    def _run(self) -> None:
        pause_s: float | None = None
        while True:
            self._something.wait(pause_s)
            self._something.clear()
            if self._stopping:
                return
            pause_s = None
            try:
                self._checks.respond()
            except StoreError as error:
                _log.debug("checks cannot be responded to: %s", error)
                pause_s = RETRY_S


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
