"""Round trips take minutes each: `make round-trip` runs them, `make test` does not."""

from __future__ import annotations

import os
import random
from typing import Protocol

import pytest

from tests.functional.conftest import vivace as vivace
from tests.functional.conftest import vivace_here as vivace_here


class Say(Protocol):
    """Tells whoever runs the test what is happening."""

    def __call__(self, step: str, detail: str) -> None: ...


SEED = "ROUND_TRIP_SEED"
"""Variable that chooses what is killed when; else, each run makes a new one."""


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Prints at once."""

    def tell(step: str, detail: str) -> None:
        with capsys.disabled():
            print(f"{step}: {detail}", flush=True)  # noqa: T201

    return tell


@pytest.fixture
def dice(say: Say) -> random.Random:
    """Chooses what is killed when; its seed is printed."""
    seed = int(os.environ.get(SEED) or random.SystemRandom().randrange(10**6))
    say("to repeat the kills", f"make round-trip SEED={seed}")
    return random.Random(seed)
