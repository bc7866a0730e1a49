"""A function that a package installs is called by whoever evaluates a query."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MODULE = """\
import pyarrow.compute as pc
from streams.expressions.owned import owned


@owned(arguments=["float"], result="float", cost=2)
def fahrenheit(celsius):
    return pc.add(pc.multiply(celsius, 1.8), 32.0)
"""


def install(folder: Path) -> None:
    """What pip leaves of a package with an entry point."""
    (folder / "weather.py").write_text(MODULE)
    info = folder / "weather-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weather\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[vivace.functions]\nfahrenheit = weather:fahrenheit\n")


def test_try_calls_a_function_that_is_installed(tmp_path: Path) -> None:
    install(tmp_path)
    (tmp_path / "readings.csv").write_text("_ts,k,t\n1000,a,2.5\n2000,b,\n3000,c,-40\n")
    query = tmp_path / "q.cql"
    query.write_text(
        "REGISTER QUERY q RSTREAM(SELECT k, fahrenheit(t) AS f FROM readings [NOW] "
        "WHERE fahrenheit(t) > 0 OR t IS NULL);"
    )
    vivace, readings = Path(sys.executable).with_name("vivace"), tmp_path / "readings.csv"
    found = subprocess.run(
        [vivace, "try", query, "--input", f"readings={readings}"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout == "_ts,k,f\n1000,a,36.5\n2000,b,\n"
