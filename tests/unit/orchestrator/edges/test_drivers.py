"""Drivers are found by name, wherever they come from, and refused in words."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from orchestrator.documents.document import documents
from orchestrator.edges import sinks, sources
from orchestrator.edges.drivers import DriverError, Registry
from orchestrator.edges.sources.driver import SourceDriver
from orchestrator.errors import InvalidInput
from orchestrator.records import DriverSpec, SourceSpec
from tests.drivers import Numbers


def registry() -> Registry[SourceDriver]:
    return Registry(
        "vivace.sources", SourceDriver, {"replay": "orchestrator.edges.sources.replay:Replay"}
    )


def test_a_driver_comes_back_from_the_store_as_it_was() -> None:
    numbers = Numbers(every_ms=2.5, first=7)
    assert sources.restore(sources.spec_of("numbers", numbers)) == numbers


def test_a_name_that_nobody_registered_is_refused() -> None:
    with pytest.raises(DriverError, match=r"vivace\.sources: no driver is named numbers"):
        registry().restore(SourceSpec(driver="numbers"))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "missing required field `every_ms`"),
        ({"every_ms": "often"}, "Expected `float`, got `str`"),
        ({"every_ms": 1.0, "speed": 2}, "unknown field `speed`"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, object], problem: str) -> None:
    with pytest.raises(DriverError, match=problem):
        sources.restore(SourceSpec(driver="numbers", options=options))


def test_one_name_one_driver() -> None:
    found = registry()
    found.register("numbers", Numbers)
    found.register("numbers", Numbers)
    with pytest.raises(ValueError, match="replay of"):
        found.register("replay", Numbers)


def test_drivers_of_installed_packages_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "numbers-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: numbers\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(
        "[vivace.sources]\ndrawn = tests.drivers:Numbers\nwrong = tests.drivers:TextFile\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    found = registry()
    assert {"drawn", "replay"} <= found.names
    assert found["drawn"] is Numbers
    with pytest.raises(DriverError, match=r"wrong is .*TextFile.*, no SourceDriver"):
        found["wrong"]


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        ("nowhere:Numbers", "No module named 'nowhere'"),
        ("tests.drivers:Nobody", "has no attribute 'Nobody'"),
        ("broken_driver:Numbers", "division by zero"),
    ],
)
def test_driver_that_cannot_be_imported_is_refused_at_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, problem: str
) -> None:
    package = tmp_path / "numbers-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: numbers\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[vivace.sources]\nodd = {module}\n")
    (tmp_path / "broken_driver.py").write_text("1 / 0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(DriverError, match=f"odd cannot be imported from {module}: .*{problem}"):
        registry().restore(SourceSpec(driver="odd"))
    manifest = tmp_path / "stream.yaml"
    manifest.write_text("from:\n  odd: {every: 1 s}\n")
    field = documents(manifest)[0].section().need("from")
    with pytest.raises(InvalidInput, match=f"stream.yaml:2: .*'odd' cannot be used.*{problem}"):
        registry().read(field)


def test_what_cannot_be_read_back_says_so(tmp_path: Path) -> None:
    spec = DriverSpec(driver="text_file", options={"separator": ","})
    with pytest.raises(DriverError, match="sink of doubled cannot be read back"):
        sinks.read_back(tmp_path, "doubled", spec)
