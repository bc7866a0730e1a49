"""Benchmark `deadline`: missed deadlines of the collision warning (deadline placement, Fig. 7).

`sim|real.<deadline|existing>_<edf|fifo>.dmr_pct.<v2v tuples>` is the deadline-miss ratio at a
volume of V2V tuples a round: the share of an output's tuples that came late, as the mean of the
three outputs. The paper defines it over the tuples of all outputs together; with 100 of the 118
tuples of a round going to the output with 3 s to spare, that could never be the 40.9 and 55.5 % it
shows. `.pooled_pct` is it as defined.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from bench.deadline_trials import COMBINATIONS, Misses, run, simulate
from bench.registry import Settings, benchmark
from examples.collision_rounds import CENTRE, ONBOARD

TRIALS = 50
QUICK_TRIALS = 5

SIMULATED_VOLUMES = (5, 10, 12, 15, 18, 20, 25)
REAL_VOLUMES = (10, 15, 20)
QUICK_VOLUMES = (15,)

NOISE = 0.3
"""Of a tuple's cost: standard deviation of its logarithm."""

PAPER_PCT = {
    "deadline_edf": 2.11,
    "existing_edf": 15.6,
    "deadline_fifo": 40.9,
    "existing_fifo": 55.5,
}
"""At 15 V2V tuples."""

TUPLES = {"o1": ONBOARD, "o5": CENTRE}
"""Of a round, where the volume does not say."""

WORLDS = ("sim", "real")

Worlds = dict[str, dict[str, Misses]]
"""`sim` or `real` → combination → misses."""


@benchmark("deadline", kinds=WORLDS)
def deadline(settings: Settings) -> Mapping[str, float]:
    """Missed deadlines of the collision warning: two placements, EDF and FIFO, two worlds."""
    trials = QUICK_TRIALS if settings.quick else TRIALS
    worlds: Worlds = {world: {} for world in settings.only or WORLDS}
    for number, combination in enumerate(COMBINATIONS if "sim" in worlds else (), start=1):
        settings.say(f"simulated: {number} of {len(COMBINATIONS)}: {combination.name}")
        volumes = QUICK_VOLUMES if settings.quick else SIMULATED_VOLUMES
        rounds = [volume for volume in volumes for _ in range(trials)]
        worlds["sim"][combination.name] = simulate(combination, rounds, NOISE, seed=1)
    for combination in COMBINATIONS if "real" in worlds else ():
        volumes = QUICK_VOLUMES if settings.quick else REAL_VOLUMES
        rounds = [volume for volume in volumes for _ in range(trials)]
        worlds["real"][combination.name] = run(combination, rounds, settings.say)
    plot(worlds, settings.folder / "misses.png")
    return figures(worlds)


def figures(worlds: Worlds) -> dict[str, float]:
    """Flat figures: the mean of the outputs, all tuples together, and each output."""
    flat: dict[str, float] = {}
    for world, combinations in worlds.items():
        for name, found in combinations.items():
            for volume, by_output in found.items():
                flat[f"{world}.{name}.dmr_pct.{volume}"] = _mean(by_output)
                tuples = {o: TUPLES.get(o, volume / 2) for o in by_output}
                late = sum(by_output[output] * count for output, count in tuples.items())
                flat[f"{world}.{name}.pooled_pct.{volume}"] = late / sum(tuples.values())
                for output, pct in by_output.items():
                    flat[f"{world}.{name}.{output}_pct.{volume}"] = pct
    return flat


def plot(worlds: Worlds, path: Path) -> None:
    """Misses by volume, one panel a world, with the paper's figures at 15 tuples."""
    from matplotlib.figure import Figure

    # Through Any, for matplotlib's annotations leave keyword arguments open.
    figure = cast("Any", Figure(figsize=(10, 4), layout="constrained"))
    for axis, (world, combinations) in zip(
        figure.subplots(1, len(worlds), sharey=True, squeeze=False)[0], worlds.items(), strict=True
    ):
        for at, (name, found) in enumerate(combinations.items()):
            volumes = sorted(found)
            pct = [_mean(found[volume]) for volume in volumes]
            axis.plot(volumes, pct, "o-", color=f"C{at}", label=name.replace("_", " "))
            axis.plot([15], [PAPER_PCT[name]], "x", color=f"C{at}")
        axis.set_title({"sim": "simulated", "real": "Spark executors"}[world])
        axis.set_xlabel("V2V tuples a round (×: the paper)")
        axis.grid(visible=True, alpha=0.3)
    figure.axes[0].set_ylabel("missed deadlines, % (mean of the outputs)")
    figure.axes[0].legend()
    figure.savefig(path, dpi=150)


def _mean(by_output: Mapping[str, float]) -> float:
    return sum(by_output.values()) / len(by_output)
