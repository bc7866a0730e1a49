"""A host goes over to compiled kernels when a statement asks for them, and not before."""

from __future__ import annotations

import pytest

from orchestrator.host.kernels import KernelLoader
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


def test_without_numba_the_reference_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(kernels.importlib, "import_module", absent)
    kernels.want()
    assert kernels.missing()
    assert not kernels.load()
    assert kernels.current() is reference
    assert not kernels.missing()
