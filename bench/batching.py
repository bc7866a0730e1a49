"""Benchmark `batching`: policies of batching beside each other (adaptive batching, §4).

`sim.<figure>.<λ>.<policy>.<figure of it>` is the paper's experiment on a simulated processor
(`bench.batching_model`). The paper's curves are lost; what its text quotes of them is printed as
`quoted.…`, and not demanded: the quotes contradict each other (a fluid model with 5 % left by no
overhead at all at λ = 0.4 cannot give the 30 and 10 points of λ = 0.8).

`real.…` is what executors do (`bench.batching_real`).

Demanded is what the method claims: see `violations`, here and there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bench.batching_model import Experiment, Outcome, Setup
from bench.batching_real import KINDS, real
from bench.batching_real import violations as real_violations
from bench.registry import Settings, benchmark
from streams.scheduling.batching import K_I, K_P, Ats, BatchingPolicy

FIXED = ("bts-1", "bts-2", "bts-4", "bts-8")
POLICIES = ("ideal", "taat", *FIXED, "bts1", "ats", "ats-algorithm", "ats1", "measured")

RATES = (0.2, 0.4, 0.5, 0.6, 0.8, 1.0)
QUICK_RATES = (0.4, 1.0)
SECONDS, QUICK_SECONDS = 12.0, 4.0

FIGURES: Mapping[str, Setup] = {
    "fig7": Setup(selectivity=1.0),
    "fig8": Setup(),
    "fig10": Setup(selectivity=None),
    "fig12": Setup(queries=300),
    "fig13": Setup(queries=300, selectivity=None),
    "zipf": Setup(zipf=True),
    "phi_10": Setup(batch_us=10_000, selectivity=None),
    "phi_20": Setup(batch_us=20_000, selectivity=None),
    "small": Setup(batch_us=10_000, rate_ms=0.01),
}
"""`fig7`…`fig13`: the paper's. 300 queries share the rate of 100. `small`: a hundred queries with
ten tuples a second each, times λ."""

QUOTED = {
    "quoted.fig8.0.5.taat_minus_ats_points": 30.0,
    "quoted.fig8.0.5.bts_minus_ats_points": 15.0,
    "quoted.fig10.0.4.ats_sdmr_pct": 5.0,
    "quoted.fig10.0.4.bts_sdmr_pct": 10.0,
    "quoted.fig10.0.4.taat_sdmr_pct": 40.0,
    "quoted.fig10.0.8.taat_minus_ats_points": 30.0,
    "quoted.fig10.0.8.bts_minus_ats_points": 10.0,
}
"""From the paper's §4.3."""

MARGIN_POINTS = 1.0
"""By how much `measured` may miss more often than the best fixed k."""

CAPACITY_RATIO = 1.3

BURST = (4.0, 6.0, 5.0)
"""From and until when, s, and by how much rates rise."""


@benchmark("batching", kinds=(*FIGURES, *KINDS))
def batching(settings: Settings) -> Mapping[str, float]:
    """Missed deadlines and overhead by batching policy: the paper's experiment, and a burst."""
    chosen = settings.only or (*FIGURES, *KINDS)
    flat: dict[str, float] = {}
    if simulated := [name for name in chosen if name in FIGURES]:
        flat |= _simulated(simulated, settings)
    if on_executors := [kind for kind in chosen if kind in KINDS]:
        plot = settings.folder / "real_burst.png"
        flat |= real(on_executors, plot, settings.say, quick=settings.quick)
    flat["violations"] = float(len([*violations(flat), *real_violations(flat)]))
    return flat


def _simulated(names: Sequence[str], settings: Settings) -> dict[str, float]:
    flat: dict[str, float] = {}
    for name in names:
        rates = QUICK_RATES if settings.quick else RATES
        for rate in rates:
            settings.say(f"simulated: {name}, λ = {rate}")
            setup = at_rate(name, rate, quick=settings.quick)
            flat[f"sim.{name}.{rate}.load_ratio"] = setup.load_ratio()
            for policy, outcome in simulate(setup):
                for key, value in outcome.figures().items():
                    flat[f"sim.{name}.{rate}.{policy}.{key}"] = value
    settings.say("simulated: signs of the law, and a burst")
    return flat | signs() | burst(settings.folder / "burst.png") | deferred() | QUOTED


def at_rate(name: str, rate: float, *, quick: bool) -> Setup:
    """The queries of a figure at one λ."""
    of = FIGURES[name]
    seconds = QUICK_SECONDS if quick else SECONDS
    rate_ms = of.rate_ms * rate / Setup().rate_ms if name == "small" else rate * 100 / of.queries
    return replace(of, rate_ms=rate_ms, seconds=seconds)


def simulate(setup: Setup) -> Iterator[tuple[str, Outcome]]:
    """Every policy on the same queries."""
    for policy in POLICIES:
        yield policy, Experiment(setup, policy).run()


def signs() -> dict[str, float]:
    """The three readings of the law at an overload of batches that are too short."""
    setup = Setup(batch_us=10_000, selectivity=None, rate_ms=1.2, seconds=QUICK_SECONDS)
    laws: Mapping[str, Callable[[], BatchingPolicy]] = {
        "law_minus": partial(Ats, -K_P, -K_I),
        "law_algorithm": partial(Ats, -K_P, K_I),
        "law_plus": partial(Ats, K_P, K_I),
    }
    flat: dict[str, float] = {}
    for name, law in laws.items():
        found = Experiment(setup, name, law).run().figures()
        flat |= {f"{name}.{key}": found[key] for key in ("sdmr_pct", "k_mean", "k_max")}
    flat["law_minus.bts_1.sdmr_pct"] = Experiment(setup, "bts-1").run().figures()["sdmr_pct"]
    return flat


def burst(plot: Path | None) -> dict[str, float]:
    """Rates times five for two seconds."""
    setup = Setup(
        queries=80, batch_us=10_000, selectivity=None, rate_ms=0.8, seconds=10.0, burst=BURST
    )
    flat: dict[str, float] = {}
    traces: dict[str, list[tuple[float, float, float]]] = {}
    for policy in (*FIXED, "ats-algorithm", "measured"):
        outcome = Experiment(setup, policy).run()
        traces[policy] = outcome.trace
        flat[f"sim.burst.{policy}.sdmr_pct"] = outcome.figures()["sdmr_pct"]
    if plot is not None:
        _plot(traces, plot)
    return flat


def deferred() -> dict[str, float]:
    """Twenty queries at 1.3 times the capacity for ten seconds, all tuples kept: the late ones with
    overdue work deferred, and without; and how long after the overload all have caught up."""
    setup = Setup(queries=20, dearer=20.0, batch_us=10_000, seconds=10.0, rate_ms=1.0)
    tuple_us = sum(each.tuple_us for each in replace(setup, rate_ms=1e-3).made())
    setup = replace(setup, rate_ms=CAPACITY_RATIO * 1000 / tuple_us)
    flat: dict[str, float] = {"deferred.capacity_ratio": CAPACITY_RATIO}
    for name, defers in (("deferred", True), ("edf", False)):
        outcome = Experiment(setup, "measured", keeps=True, defers=defers).run()
        flat[f"deferred.{name}.late_pct"] = outcome.figures()["sdmr_pct"]
        flat[f"deferred.{name}.lost"] = float(outcome.dropped)
        flat[f"deferred.{name}.caught_up_s"] = outcome.lasted_s - setup.seconds
    return flat


def violations(flat: Mapping[str, float]) -> Iterator[str]:
    """What the figures should show and do not: Ideal misses least, BTS no more than TAAT, BTS1 and
    ATS1 no more than BTS and ATS, `measured` at most a point more than the best fixed k; and the
    law with minus signs (`law_minus`) never leaves k = 1."""
    flat = {key: value for key, value in flat.items() if not key.startswith("real.")}
    runs = {key.rsplit(".", 2)[0] for key in flat if key.endswith(".measured.sdmr_pct")}
    for run in sorted(runs):
        found = {
            key.removeprefix(f"{run}.").removesuffix(".sdmr_pct"): value
            for key, value in flat.items()
            if key.startswith(f"{run}.") and key.endswith(".sdmr_pct")
        }
        best = min(found[each] for each in FIXED)
        if found["measured"] > best + MARGIN_POINTS:
            yield f"{run}: measured {found['measured']:.1f} %, the best fixed k {best:.1f} %"
        if "ideal" not in found:
            continue
        if found["ideal"] > min(found.values()) + 1e-9:
            yield f"{run}: not even Ideal misses least"
        for less, more in (("bts-1", "taat"), ("bts1", "bts-1"), ("ats1", "ats-algorithm")):
            if found[less] > found[more] + 1e-9:
                yield f"{run}: {less} {found[less]:.1f} %, {more} {found[more]:.1f} %"
    if flat.get("deferred.deferred.late_pct", 0) > flat.get("deferred.edf.late_pct", 0) / 2:
        yield "deferred: more than half as many are late as under EDF"
    if flat.get("law_minus.k_max", 1.0) != 1.0:
        yield "law_minus: k has left 1"


def _plot(traces: Mapping[str, list[tuple[float, float, float]]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(7, 4))
    axes = figure.subplots()
    for policy, trace in traces.items():
        axes.plot([at_s for at_s, _, _ in trace], [k for _, k, _ in trace], label=policy)
    axes.set_xlabel("time, s")
    axes.set_ylabel("k, batch units of 10 ms")
    axes.axvspan(BURST[0], BURST[1], alpha=0.15)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=110)
