"""Codes of keys: a checkpoint is written by one thread while another one adds keys."""

from __future__ import annotations

import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

from streams.kernels.keys import Column, Keys, every
from streams.vectors.vector import Vector

KEYS, BATCH = 10_000, 50


@pytest.fixture(autouse=True)
def _threads_alternate() -> Generator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def _column(kind: str, begin: int, end: int) -> Column:
    numbers = np.arange(begin, end)
    return pa.array(map(str, numbers)) if kind == "string" else Vector(numbers, None)


@pytest.mark.parametrize("kind", ["int", "string"])
def test_keys_are_read_as_they_are_while_others_come(kind: str) -> None:
    keys = Keys([kind])

    def wrong(count: int) -> int:
        (found,) = keys.columns(np.arange(1, count + 1, dtype=np.int32))
        return int((found.values.astype(np.int64) != np.arange(count)).sum())

    def add() -> None:
        for begin in range(BATCH, KEYS, BATCH):
            keys.encode([_column(kind, begin, begin + BATCH)], BATCH, every)

    keys.encode([_column(kind, 0, BATCH)], BATCH, every)
    with ThreadPoolExecutor() as threads:
        adding, found = threads.submit(add), 0
        while not adding.done():
            found += wrong(keys.count - 1)
        adding.result()
    assert not found + wrong(KEYS)
