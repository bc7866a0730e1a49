"""`vivace try --check`: a query on files beside Spark SQL."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.json_schema import wrong

Vivace = Callable[..., "subprocess.CompletedProcess[str]"]

# Spark compiles what it evaluates: on a machine with many other runs, that takes minutes.
pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]

STATEMENTS = """\
REGISTER QUERY hot RSTREAM(SELECT sensor, celsius FROM readings [NOW] WHERE celsius >= 30);
REGISTER QUERY tops RSTREAM(
  SELECT sensor, max(celsius) AS top, count(*) AS n
  FROM readings [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY sensor);
REGISTER QUERY first ISTREAM(SELECT sensor FROM readings [UNBOUNDED] TOP 1 BY celsius);
"""


def test_results_are_those_of_spark_sql(vivace: Vivace, tmp_path: Path) -> None:
    query, rows = tmp_path / "query.cql", tmp_path / "readings.csv"
    query.write_text(STATEMENTS, encoding="utf-8")
    lines = [f"{1000 * at // 3},s{at % 4},{(at * 7) % 40}.5" for at in range(200)]
    rows.write_text("\n".join(["at,sensor,celsius", *lines]), encoding="utf-8")
    done = vivace("try", query, "-i", rows, "--check", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert not wrong(document, "try")
    checked = {each["output"]: each for each in document["checked"]}
    assert checked.keys() == {"hot", "tops", "first"}
    for name, each in checked.items():
        assert (each["missing"], each["unexpected"]) == (0, 0), name
        assert each["archived"] == each["recomputed"] > 0, name
    # What SQL cannot express is said to be evaluated again.
    assert document["not_in_sql"].keys() == {"first"}
