"""Benchmark `detection`: how soon a silent peer is suspected, and how often a living one.

Traces of gaps between heartbeats are replayed through the product's failure detector, with the
fixed threshold and with thresholds on φ. Three traces are made up, from seeds: of a machine that is
idle, loaded and overloaded. Three are measured: a process sends heartbeats through a pipe while no,
one or three busy processes a processor run beside it.

Time passes as on a watching host that is never late itself, and that always hears a third host. So
`false_per_h` counts suspicions of a peer that only was slow, and `detection_ms` is the time from a
peer's last heartbeat before it stopped for good until it is suspected.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from bench.heartbeat_gaps import AccrualDetector
from bench.registry import Settings, benchmark
from foundation.arrays import FloatArray
from ha.failure_detector import FailureDetector

HEARTBEAT_US, SUSPECT_US = 25_000, 150_000
"""A cluster's defaults."""

HOUR_US = 3_600_000_000

THRESHOLDS: Mapping[str, float | None] = {"fixed": None, "phi_4": 4.0, "phi_8": 8.0, "phi_12": 12.0}

TRACE_S, QUICK_S = 3600.0, 60.0
MEASURED_S, MEASURED_QUICK_S = 20.0, 2.0

STOPS = 60
"""Ends of the peer that are tried, evenly over a trace."""

_sender = f"""
import os, time
due = time.monotonic()
parent = os.getppid()
while os.getppid() == parent:
    os.write(1, b"%d\\n" % (time.monotonic_ns() // 1000))
    due = max(due + {HEARTBEAT_US / 1e6}, time.monotonic())
    time.sleep(max(due - time.monotonic(), 0))
"""
_busy = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100_000))"


def made_up(kind: str, seconds: float, seed: int) -> FloatArray:
    """Times at which heartbeats arrive, µs, never falling.

    Parameters
    ----------
    kind
        `idle`: late by up to a millisecond. `loaded`: by five on average, now and then by thirty.
        `overloaded`: by twenty on average; every few seconds, nothing is sent for 60 to 400 ms.
    """
    rng = np.random.default_rng(seed)
    count = int(seconds * 1e6 / HEARTBEAT_US)
    mean_us, rare, stall_us = {
        "idle": (300.0, 0.0, (0.0, 0.0)),
        "loaded": (5_000.0, 0.002, (20_000.0, 40_000.0)),
        "overloaded": (20_000.0, 0.01, (60_000.0, 400_000.0)),
    }[kind]
    late_us = rng.exponential(mean_us, count)
    late_us += np.where(rng.random(count) < rare, rng.uniform(*stall_us, count), 0.0)
    # A heartbeat is sent once the one before it has been.
    sent_us = np.maximum.accumulate(HEARTBEAT_US * np.arange(count) + late_us)
    return sent_us.astype(np.float64)


@contextmanager
def _rivals(count: int) -> Generator[None]:
    processes = [subprocess.Popen([sys.executable, "-I", "-S", "-c", _busy]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measured(rivals: int, seconds: float) -> FloatArray:
    """Times at which a process sent heartbeats beside busy ones, µs."""
    sent: list[int] = []
    with (
        _rivals(rivals),
        subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _sender], stdout=subprocess.PIPE, text=True
        ) as sender,
    ):
        assert sender.stdout is not None
        for line in sender.stdout:
            sent.append(int(line))
            if sent[-1] - sent[0] > seconds * 1e6:
                break
        sender.kill()
    return np.array(sent, dtype=np.float64) - sent[0]


def detector_with(phi: float | None) -> FailureDetector:
    """The product's detector, or one with a threshold on φ."""
    if phi is None:
        return FailureDetector(SUSPECT_US, HEARTBEAT_US)
    return AccrualDetector(SUSPECT_US, HEARTBEAT_US, phi)


def false_suspicions(arrivals_us: FloatArray, phi: float | None) -> int:
    """How often a living peer is suspected that is heard at these times."""
    detector = detector_with(phi)
    return _watched(detector, arrivals_us, float(arrivals_us[-1]))[0]


def detections_ms(arrivals_us: FloatArray, phi: float | None, stops: Sequence[int]) -> list[float]:
    """Times from the last heartbeat until the peer is suspected, if it stops after some of them."""
    found: list[float] = []
    for stop in stops:
        # What has been learnt before the last minute hardly counts any more.
        heard_us = arrivals_us[max(stop - 2_400, 0) : stop + 1]
        detector = detector_with(phi)
        last_us = float(heard_us[-1])
        _, suspected_us = _watched(detector, heard_us, last_us + 60_000_000, after_us=last_us)
        assert suspected_us is not None, "a peer that has ended is suspected within a minute"
        found.append((suspected_us - last_us) / 1000)
    return found


def _watched(
    detector: FailureDetector,
    arrivals_us: FloatArray,
    end_us: float,
    after_us: float | None = None,
) -> tuple[int, float | None]:
    """Replay a trace: the number of suspicions, and when the first one came after some time."""
    detector.watch({"peer"}, int(arrivals_us[0]))
    at, suspicions = 0, 0
    now_us = int(arrivals_us[0])
    while now_us <= end_us:
        while at < len(arrivals_us) and arrivals_us[at] <= now_us:
            detector.heard("peer", int(arrivals_us[at]))
            at += 1
        detector.heard("another", now_us)
        if detector.suspects(now_us):
            suspicions += 1
            if after_us is not None and now_us > after_us:
                return suspicions, float(now_us)
        now_us += HEARTBEAT_US
    return suspicions, None


@benchmark("detection", kinds=("made_up", "measured"))
def detection(settings: Settings) -> dict[str, float]:
    """Detection time against false suspicions an hour: fixed threshold and thresholds on φ."""
    traces: dict[str, FloatArray] = {}
    kinds = settings.only or ("made_up", "measured")
    if "made_up" in kinds:
        seconds = QUICK_S if settings.quick else TRACE_S
        for seed, kind in enumerate(("idle", "loaded", "overloaded")):
            traces[f"made_up.{kind}"] = made_up(kind, seconds, seed)
    if "measured" in kinds:
        seconds = MEASURED_QUICK_S if settings.quick else MEASURED_S
        processors = os.cpu_count() or 1
        for kind, rivals in (("idle", 0), ("loaded", 1), ("overloaded", 3)):
            traces[f"measured.{kind}"] = measured(rivals * processors, seconds)
    figures: dict[str, float] = {}
    for trace, arrivals_us in traces.items():
        hours = float(arrivals_us[-1]) / HOUR_US
        count = len(arrivals_us)
        stops = np.linspace(count // 2, count - 1, 20 if settings.quick else STOPS).astype(int)
        figures[f"{trace}.longest_gap_ms"] = float(np.diff(arrivals_us).max()) / 1000
        for name, phi in THRESHOLDS.items():
            took_ms = detections_ms(arrivals_us, phi, [int(stop) for stop in stops])
            figures[f"{trace}.{name}.detection_ms_p50"] = float(np.percentile(took_ms, 50))
            figures[f"{trace}.{name}.detection_ms_max"] = max(took_ms)
            figures[f"{trace}.{name}.false_per_h"] = false_suspicions(arrivals_us, phi) / hours
    return figures
