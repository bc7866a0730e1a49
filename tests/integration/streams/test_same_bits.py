"""What the query language computes does not depend on the processor.

Numpy and the C library choose implementations by the processor's features. Both can be told to do
without, so one machine can stand for several.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

FEATURES = "NPY_DISABLE_CPU_FEATURES"
"""Numpy: features not to use."""

TUNABLES = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2,-AVX,-AVX512F"}
"""The same for the C library."""


def computed(environment: dict[str, str]) -> tuple[str, list[str]]:
    """Features in use, digests."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.same_bits"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    features, *digests = done.stdout.splitlines()
    return features, digests


@pytest.mark.slow
def test_processors_without_wide_instructions_give_the_same_bits() -> None:
    features, digests = computed({})
    assert len(digests) > 50
    without, others = computed({FEATURES: features, **TUNABLES})
    assert without == ""
    assert others == digests
    assert computed({FEATURES: features})[1] == digests
    assert computed(TUNABLES)[1] == digests
