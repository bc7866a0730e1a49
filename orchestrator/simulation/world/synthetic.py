"""Recordings that are made up, for streams of which only the future knows what they bring.

The rows of a live stream are drawn by the types of its columns, and come at the rate that was
measured or, while nothing was, at the one that its manifest states. So drills and what-if questions
can be played on streams that come from outside: what they cost, not what they say.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import msgspec
import pyarrow as pa
from pyarrow import parquet

from orchestrator.control.observe.view import ClusterView
from orchestrator.edges import sources
from orchestrator.edges.sources.replay import Replay
from orchestrator.host.shell.trial import generated
from orchestrator.records import StreamRecord
from orchestrator.simulation.world.stage import Stage
from streams.vectors.widths import row_bytes

BEGIN_MS = 1_700_000_000_000
"""Where the time axis of what is made up begins."""

LASTS_S = 30.0
"""Length of what is made up: it is repeated from then on."""

LEAST_EVERY_MS = 20
"""Made up tuples enter together that come within so much time, at least."""

TIME_COLUMN = "made up at"
"""No column of a stream can have this name."""


def played_stage(view: ClusterView, folder: Path, load: float = 1.0) -> tuple[Stage, list[str]]:
    """What runs in a cluster now, with streams that can be played for ever; the made up ones.

    Parameters
    ----------
    folder
        Where recordings are written; it must outlive the stage.
    load
        Recordings are played so many times as fast; what is made up comes at the view's rates.
    """
    stage = Stage.of_view(view)
    known = {stream.name: sources.recorded(stream) for stream in stage.streams}
    recorded = {
        name: driver
        for name, driver in known.items()
        if driver is not None and driver.recording.exists()
    }
    # Streams that are joined must agree in their time axis.
    first = next(iter(recorded.values()), None)
    begin_ms, speed = (BEGIN_MS, 1.0) if first is None else (first.begin_ms, first.speed * load)
    streams = [
        sources.played(stream, repeat=True, speed=recorded[stream.name].speed * load)
        if stream.name in recorded
        else _made_up(view, stream, folder, begin_ms, speed)
        for stream in stage.streams
    ]
    made_up = [stream.name for stream in stage.streams if stream.name not in recorded]
    return replace(stage, streams=streams), made_up


def measured_rate_bytes_s(view: ClusterView, stream: StreamRecord) -> float:
    """A stream's volume, by what fragments have read that read no other; else as it is stated."""
    found = [
        load.tuples_s
        for fragment in view.dataflow.fragments.values()
        if [*fragment.inputs] == [stream.name]
        and (load := view.measured_load(fragment)) is not None
    ]
    return max(found) * row_bytes(stream.columns) if found else stream.rate_bytes_s


def _made_up(
    view: ClusterView, stream: StreamRecord, folder: Path, begin_ms: int, speed: float
) -> StreamRecord:
    rate_bytes_s = measured_rate_bytes_s(view, stream)
    together_ms = stream.source.together_ms if stream.source else 0.0
    every_ms = max(round(max(together_ms, LEAST_EVERY_MS) * speed), 1)
    portions = max(round(LASTS_S * 1000 * speed / every_ms), 1)
    recorded = msgspec.structs.replace(stream, rate_bytes_s=rate_bytes_s / speed)
    made = islice(generated(recorded, every_ms, begin_ms, portions), portions)
    table = pa.Table.from_batches([each.rows for each in made])
    path = folder / f"{stream.name}.parquet"
    parquet.write_table(table.rename_columns([TIME_COLUMN, *stream.columns]), path)
    driver = Replay(
        path=str(path),
        begin_ms=begin_ms,
        end_ms=begin_ms + portions * every_ms,
        speed=speed,
        repeat=True,
        interval_ms=every_ms,
        time_column=TIME_COLUMN,
    )
    return msgspec.structs.replace(
        stream,
        rate_bytes_s=rate_bytes_s,
        source=sources.spec_of("replay", driver),
        fields={},
        beside=None,
    )
