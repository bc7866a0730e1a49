"""How long evaluation takes on a simulated node."""

from __future__ import annotations

import numpy as np
import pytest

from orchestrator.host.core.core import Worked
from orchestrator.simulation.world.world import Costs


def worked(tuples: int, emulated_us: float | None) -> Worked:
    return Worked(
        commands=[], fragment="f", tuples=tuples, timestamp_groups=2, emulated_us=emulated_us
    )


def test_every_dispatch_has_a_fixed_cost() -> None:
    costs, rng = Costs(dispatch_us=50, effort_us=5.0), np.random.default_rng(1)
    assert costs.of(worked(0, None), rng) == 60
    assert costs.of(worked(8, None), rng) == 100


def test_emulated_costs_are_as_stated() -> None:
    rng = np.random.default_rng(1)
    before = rng.bit_generator.state
    assert Costs().of(worked(8, 800.4), rng) == 800
    # Nothing was drawn: worlds without noise are the same as ever.
    assert rng.bit_generator.state == before
    assert Costs(noise=0.5).of(worked(0, 0.0), rng) == 0


def test_noise_is_drawn_for_each_tuple_around_the_stated_cost() -> None:
    costs, rng = Costs(noise=0.3), np.random.default_rng(1)
    one = np.array([costs.of(worked(1, 1000.0), rng) for _ in range(4000)])
    many = np.array([costs.of(worked(25, 25_000.0), rng) for _ in range(4000)])
    assert one.mean() == pytest.approx(1000, rel=0.02)
    assert many.mean() == pytest.approx(25_000, rel=0.02)
    assert np.log(one).std() == pytest.approx(0.3, rel=0.05)
    # 25 tuples together vary by a fifth of what one does.
    assert many.std() / 25_000 == pytest.approx(one.std() / 1000 / 5, rel=0.1)


def test_noise_repeats_under_a_seed() -> None:
    drawn = [
        Costs(noise=0.3).of(worked(3, 3000.0), np.random.default_rng(seed)) for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
