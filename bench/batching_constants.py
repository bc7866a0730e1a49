"""Benchmark `batching_constants`: where adaptive batching, §4.2, has its constants from.

- `fig3`: tuples of a stream that arrive in 0.1 s at λ = 0.5, the reading of λ's unit.
- `fig4`: the miss ratio of BTS by Φ and k. The paper finds that a small Φ needs k > 1, and that
  Φ = 0.1 s is best.
- `fig5`, `fig6`: the miss ratio of ATS by K_P and by K_I, under the law of Algorithm 2 as printed
  (`ats-algorithm`, the only one of the three readings that can both raise and lower k), and the
  largest k that it came to.

The text says of none of these at which λ and selectivity it was measured. Here selectivities are
random, Φ of Fig. 5 and 6 is 10 ms, and λ is such that batches that are too short miss: at λ = 0.5
and Φ = 0.1 s nothing does. That is an overload (`load_ratio`) whatever the policy: even Ideal
misses (`ideal.sdmr_pct`), the more the longer the run is. So only figures of one run compare.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from bench.batching_model import Experiment, Setup
from bench.registry import Figures, Settings, benchmark
from streams.scheduling.batching import K_I, K_P, Ats

KINDS = ("fig3", "fig4", "fig5", "fig6")

UNITS_MS = (10, 20, 40, 50, 100)
"""Φ, as in Fig. 4."""
KS = (1, 2, 3, 5, 8, 10)
QUICK_UNITS_MS, QUICK_KS = (10, 20, 100), (1, 2, 5)

PROPORTIONAL = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
INTEGRAL = (1.0, 5.0, 10.0, 15.0, 20.0)
"""As in Fig. 5 and 6."""
QUICK_PROPORTIONAL, QUICK_INTEGRAL = (1.0, 20.0), (1.0, 10.0)

RATE = 0.9
SECONDS, QUICK_SECONDS = 8.0, 5.0


@benchmark("batching_constants", kinds=KINDS)
def batching_constants(settings: Settings) -> Figures:
    """How the batch unit and the constants of the control law decide what is missed."""
    kinds, flat = settings.only or KINDS, dict[str, float]()
    seconds = QUICK_SECONDS if settings.quick else SECONDS
    if "fig3" in kinds:
        flat |= arrivals(seconds)
    units_ms, ks = (QUICK_UNITS_MS, QUICK_KS) if settings.quick else (UNITS_MS, KS)
    for unit_ms in units_ms if "fig4" in kinds else ():
        setup = Setup(batch_us=unit_ms * 1000, selectivity=None, rate_ms=RATE, seconds=seconds)
        for k in ks:
            settings.say(f"Φ = {unit_ms} ms, k = {k}")
            found = Experiment(setup, f"bts-{k}").run().figures()
            flat[f"fig4.{unit_ms}.{k}.sdmr_pct"] = found["sdmr_pct"]
    setup = Setup(batch_us=10_000, selectivity=None, rate_ms=RATE, seconds=seconds)
    flat["load_ratio"] = setup.load_ratio()
    flat["ideal.sdmr_pct"] = Experiment(setup, "ideal").run().figures()["sdmr_pct"]
    proportional = QUICK_PROPORTIONAL if settings.quick else PROPORTIONAL
    integral = QUICK_INTEGRAL if settings.quick else INTEGRAL
    for figure, laws in (
        ("fig5", {each: partial(Ats, -each, K_I) for each in proportional}),
        ("fig6", {each: partial(Ats, -K_P, each) for each in integral}),
    ):
        for constant, law in laws.items() if figure in kinds else ():
            settings.say(f"{figure}: {constant}")
            found = Experiment(setup, "ats-algorithm", law).run().figures()
            flat[f"{figure}.{constant:g}.sdmr_pct"] = found["sdmr_pct"]
            flat[f"{figure}.{constant:g}.k_max"] = found["k_max"]
    return flat


def arrivals(seconds: float) -> dict[str, float]:
    """Tuples in each 0.1 s of one stream."""
    (query,) = Setup(queries=1, rate_ms=0.5, seconds=seconds).made()
    edges_us = np.arange(0, 1e6 * seconds + 1, 1e5)
    counts, _ = np.histogram(query.arrivals_us, edges_us)
    flat = {f"fig3.{at / 10:.1f}.tuples": float(count) for at, count in enumerate(counts)}
    return flat | {
        "fig3.least": float(counts.min()),
        "fig3.mean": float(counts.mean()),
        "fig3.most": float(counts.max()),
    }
