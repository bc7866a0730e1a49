"""Recordings that manifests name, looked at before anything runs.

The site reads them, and may be another machine. So a recording that is not here, or is large, is
left to the site, which names what is wrong with it in `vivace status`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from orchestrator import sources
from orchestrator.drivers import DriverError
from orchestrator.errors import InvalidInput
from orchestrator.manifest.kinds import StreamManifest, place_of
from orchestrator.records import SourceAssignment
from orchestrator.sources.driver import SourceContext

MOST_BYTES = 64 * 2**20
"""Reading more takes longer than people wait for an answer."""


def check_recordings(streams: Iterable[StreamManifest], running: Container[str]) -> None:
    """Refuse streams whose recordings are here and cannot be played.

    Parameters
    ----------
    running
        Streams that run already; they are not looked at.

    Raises
    ------
    InvalidInput
        A recording cannot be read, lacks a column, has another type, falls in time, or lies
        outside of what is to be played.
    """
    for manifest in streams:
        stream = manifest.record
        if stream.name in running or not stream.resumes:
            continue
        try:
            driver = sources.recorded(stream)
            if driver is None or not driver.recording.is_file():
                continue
            if driver.recording.stat().st_size > MOST_BYTES:
                continue
            assignment = SourceAssignment(
                stream=stream.name, columns=stream.columns, source=stream.source, start_at_us=0
            )
            driver.open(assignment, SourceContext()).close()
        except (DriverError, OSError) as error:
            raise InvalidInput(
                place_of(manifest, "from"),
                f"Stream {stream.name}: from",
                None,
                str(error),
                "Correct the manifest or the file.",
            ) from None
