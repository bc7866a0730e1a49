"""The cost of running an operator on n tuples, learnt while it runs.

A batch has a fixed cost and a cost for each tuple: cost = a + b·n. Plans start from an estimate of
a and b, but the machine, the load and the tuples change. Therefore each dispatch is a sample, and
recursive least squares with exponential forgetting [1]_ estimates a and b: the squared error of a
sample is weighted by λ^age, and a sample's weight halves every `half_life` samples.

===========  ==============  =====================================================
symbol       name here       meaning
===========  ==============  =====================================================
a            fixed_us        fixed cost of a batch, µs, ≥ 0
b            per_tuple_us    cost of each tuple in it, µs, ≥ 0
n, t         tuples, took_us a sample
λ            (forgetting)    weight of a sample relative to the one after it
Σw           weight          sum of the samples' weights
n̄, t̄         mean_…          weighted means
S_nn, S_nt   spread, joint   Σw(n − n̄)², Σw(n − n̄)(t − t̄)
===========  ==============  =====================================================

Two unknowns need no matrix: five sums, decayed and updated at each sample, hold the same
information as the covariance matrix of the textbook's recursion. They also avoid its weakness. If
all batches have one size, the samples say how much such a batch costs, but not how the cost divides
into a and b; the textbook's matrix then grows without bound, and the next batch of another size
gets far too much weight. Here the slope b is drawn towards that of the prior, scaled to the present
cost of batches, with a weight that does not fade. Samples of different sizes outweigh the prior;
without such samples a and b keep their proportion. The prior also counts as one sample before the
first.

References
----------
.. [1] L. Ljung, "System Identification: Theory for the User", 2nd edition, Prentice Hall, 1999,
   §11.2: recursive least squares with a forgetting factor.
"""

from __future__ import annotations

import math

HALF_LIFE_SAMPLES = 64.0
"""Dispatches after which a sample's weight has halved. A busy fragment makes so many in about a
second, long enough to average out the noise of the machine."""

PRIOR_SPREAD = 0.1
"""Weight of the prior's division into a and b: that of one sample whose size differs from the mean
size by this share of it."""


class CostModel:
    """Cost of one operator.

    Parameters
    ----------
    prior_us_per_tuple
        b before the first measurement, µs, > 0.
    prior_fixed_us
        a before the first measurement, µs, ≥ 0.
    half_life
        Samples after which a sample's weight has halved, > 0.

    Raises
    ------
    ValueError
        A number out of its range.

    Examples
    --------
    >>> model = CostModel(1000.0, 0.0)
    >>> for tuples in range(100):
    ...     model.observe(tuples % 10, 500.0 + 2000.0 * (tuples % 10))
    >>> round(model.cost_us(100), -4)
    200000.0
    """

    def __init__(
        self,
        prior_us_per_tuple: float,
        prior_fixed_us: float = 0.0,
        *,
        half_life: float = HALF_LIFE_SAMPLES,
    ) -> None:
        if not (math.isfinite(prior_us_per_tuple) and prior_us_per_tuple > 0):
            raise ValueError(f"a tuple cannot cost {prior_us_per_tuple} µs; give a number > 0")
        if not (math.isfinite(prior_fixed_us) and prior_fixed_us >= 0):
            raise ValueError(f"a batch cannot cost {prior_fixed_us} µs; give a number ≥ 0")
        if not half_life > 0:
            raise ValueError(f"weights cannot halve in {half_life} samples; give a number > 0")
        self.per_tuple_us = float(prior_us_per_tuple)
        self.fixed_us = float(prior_fixed_us)
        self.samples = 0
        self._prior_per_tuple_us = self.per_tuple_us
        self._prior_fixed_us = self.fixed_us
        self._forgetting = 0.5 ** (1.0 / half_life)
        self._weight = 1.0
        self._mean_tuples = 0.0
        self._mean_us = 0.0
        self._spread = 0.0
        self._joint = 0.0

    def cost_us(self, tuples: int) -> float:
        """Expected cost of a batch with so many tuples, µs."""
        return self.fixed_us + self.per_tuple_us * tuples

    def observe(self, tuples: int, took_us: float) -> None:
        """Learn from a batch.

        Parameters
        ----------
        tuples
            Number of tuples in the batch, ≥ 0.
        took_us
            Duration of its evaluation, µs, ≥ 0 and finite.
        """
        if self.samples == 0:
            self._mean_tuples = float(tuples)
            self._mean_us = self._prior_us(tuples)
        self.samples += 1
        before = self._forgetting * self._weight
        self._weight = before + 1.0
        by_tuples, by_us = tuples - self._mean_tuples, took_us - self._mean_us
        self._mean_tuples += by_tuples / self._weight
        self._mean_us += by_us / self._weight
        share = before / self._weight
        self._spread = self._forgetting * self._spread + share * by_tuples * by_tuples
        self._joint = self._forgetting * self._joint + share * by_tuples * by_us
        self._solve()

    def _prior_us(self, tuples: float) -> float:
        return self._prior_fixed_us + self._prior_per_tuple_us * tuples

    def _solve(self) -> None:
        """Least squares: min Σw(t − a − b·n)² + κ(b − b₀)², subject to a ≥ 0, b ≥ 0.

        κ is the prior's weight, b₀ its slope scaled so that its line goes through (n̄, t̄).
        """
        mean_tuples, mean_us = self._mean_tuples, self._mean_us
        expected_us = self._prior_us(mean_tuples)
        scale = mean_us / expected_us if expected_us > 0 else 1.0
        slope = self._prior_per_tuple_us * scale
        held = (PRIOR_SPREAD * mean_tuples) ** 2
        spread = self._spread + held
        per_tuple_us = (self._joint + held * slope) / spread if spread > 0 else slope
        if per_tuple_us <= 0:
            # b is at its bound, and the best a is the mean.
            self.per_tuple_us, self.fixed_us = 0.0, mean_us
        elif per_tuple_us * mean_tuples > mean_us:
            # a is at its bound, and the best line has no fixed cost.
            squares = self._spread + self._weight * mean_tuples * mean_tuples + held
            products = self._joint + self._weight * mean_tuples * mean_us + held * slope
            self.per_tuple_us, self.fixed_us = max(products / squares, 0.0), 0.0
        else:
            self.per_tuple_us, self.fixed_us = per_tuple_us, mean_us - per_tuple_us * mean_tuples
