"""A host goes over to compiled kernels when a statement asks for them, and not before."""

from __future__ import annotations

import threading
import time

import pytest

from orchestrator.host.kernels import KernelLoader
from orchestrator.host.own_process import process_cpu_s
from streams.engine import FragmentEngine
from streams.panes import kernels, reference
from tests.conftest import PATIENCE_S
from tests.unit.streams.running import program


@pytest.fixture(autouse=True)
def before_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels.in_use, "module", reference)
    monkeypatch.setattr(kernels.in_use, "wanted", False)


def test_kernels_are_loaded_when_a_statement_needs_them() -> None:
    loader = KernelLoader()
    FragmentEngine(program("RSTREAM(SELECT k FROM s [NOW])"))
    loader.attend()
    loader.wait(PATIENCE_S)
    assert kernels.current() is reference
    FragmentEngine(program("RSTREAM(SELECT count(*) AS n FROM s [RANGE 1 SECOND SLIDE 1 SECOND])"))
    loader.attend()
    loader.wait(PATIENCE_S)
    assert kernels.current().__name__ == "streams.panes.compiled"
    assert not kernels.missing()


def test_what_loading_takes_is_known_while_it_lasts_and_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    has_begun, goes_on = threading.Event(), threading.Event()

    def work_until(used_s: float) -> None:
        while time.thread_time() < used_s:
            pass

    def load() -> None:
        work_until(0.1)
        has_begun.set()
        goes_on.wait(PATIENCE_S)
        work_until(0.2)

    monkeypatch.setattr(kernels, "load", load)
    kernels.want()
    loader = KernelLoader()
    assert loader.used_s() == 0.0
    loader.attend()
    assert has_begun.wait(PATIENCE_S)
    # The kernel counts in hundredths of a second.
    assert loader.used_s() >= 0.08
    goes_on.set()
    loader.wait(PATIENCE_S)
    assert 0.2 <= loader.used_s() <= process_cpu_s()


def test_without_numba_the_reference_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(kernels.importlib, "import_module", absent)
    kernels.want()
    assert kernels.missing()
    assert not kernels.load()
    assert kernels.current() is reference
    assert not kernels.missing()
