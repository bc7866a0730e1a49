"""A query is changed while a client pushes: another HAVING and another deadline, in a real cluster.

Nothing is lost or repeated, each window counts all that came in it, whether it was open at the cut
or not, and shows the groups that the statement of its time lets through.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from orchestrator.documents.units import timestamp_ms
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.sinks.delivered import GENERATION
from streams.vectors.reserved import TIMESTAMP
from tests.conftest import WaitUntil
from tests.functional.conftest import Vivace
from tests.functional.test_restart import begin, data, delivered, ok

__all__ = ["data"]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(900),
]

WINDOW_MS = 2000
LANES = 4

MANIFEST = f"""kind: Cluster
name: changed
nodes: [{{name: n1, region: here}}, {{name: n2, region: here}}]
sites: [{{name: desk, region: here}}]
---
kind: Stream
name: readings
site: desk
columns: {{number: int}}
rate: 10 KB/s
from: {{http: {{listen: PORT}}}}
---
kind: Query
name: lanes
deadline: 5 s
recovery: 5 s
outputs: {{each: desk, counts: desk}}
statements: |
  REGISTER QUERY each RSTREAM(SELECT number FROM readings [NOW]);
  REGISTER QUERY counts RSTREAM(SELECT number % {LANES} AS lane, count(*) AS tuples
    FROM readings [RANGE {WINDOW_MS} MILLISECONDS SLIDE {WINDOW_MS} MILLISECONDS]
    GROUP BY number % {LANES} HAVING count(*) > 0);
"""


def test_a_changed_having_and_deadline_lose_and_repeat_nothing(
    vivace: Vivace, data: Path, tmp_path: Path, wait_until: WaitUntil
) -> None:
    _, rest, pusher = begin(vivace, data, tmp_path, MANIFEST)

    def newest_ms() -> int:
        pusher.check()
        try:
            return max(delivered(data, "counts").rows[TIMESTAMP].to_pylist(), default=0)
        except FileNotFoundError:
            return 0

    wait_until(lambda: newest_ms() > 0)
    others = rest.read_text().replace("HAVING count(*) > 0", "HAVING number % 4 >= 2")
    rest.write_text(others.replace("deadline: 5 s", "deadline: 6 s"))
    plan = json.loads(ok(vivace, "plan", "--file", rest, "--json"))["changed"]
    effects = {each["fragment"]: each["effect"] for each in plan[0]["statements"]}
    assert effects == {"each": "unchanged", "counts": "state kept"}
    assert plan[0]["fields"] == [{"field": "deadline", "was": "5 s", "now": "6 s"}] or plan[0][
        "fields"
    ] == [{"field": "deadline", "was": "5000 ms", "now": "6000 ms"}]
    told = ok(vivace, "apply", "--file", rest)
    assert "lanes.counts  state kept" in told
    history = json.loads(ok(vivace, "history", "--json", "--limit", "1000"))["history"]
    (event,) = (each for each in history if each["kind"] == "statement changed")
    assert event["subject"] == "lanes.counts"
    cut_ms = timestamp_ms(event["detail"].split()[1].rstrip(";"))
    wait_until(lambda: newest_ms() > cut_ms + 2 * WINDOW_MS)
    acknowledged = pusher.end()
    wait_until(lambda: delivered(data, "each").rows.num_rows == acknowledged)
    ok(vivace, "down")

    each, counts = delivered(data, "each").rows, delivered(data, "counts").rows
    assert each["number"].to_pylist() == list(range(acknowledged))
    for stream in ("each", "counts"):
        assert len(set(delivered(data, stream).rows[GENERATION].to_pylist())) == 1
        assert sequence_faults(delivered(data, stream)) == SequenceFaults(lost=0, repeated=0)
    of_window: Counter[tuple[int, int]] = Counter()
    for at_ms, number in zip(each[TIMESTAMP].to_pylist(), each["number"].to_pylist(), strict=True):
        of_window[at_ms + -at_ms % WINDOW_MS, number % LANES] += 1
    shown = {
        (at_ms, lane): tuples
        for at_ms, lane, tuples in zip(
            *(counts[name].to_pylist() for name in (TIMESTAMP, "lane", "tuples")), strict=True
        )
    }
    assert len(shown) == counts.num_rows
    last_ms = max(at_ms for at_ms, _ in shown)
    assert shown == {
        (at_ms, lane): tuples
        for (at_ms, lane), tuples in of_window.items()
        if at_ms <= last_ms and (at_ms <= cut_ms or lane >= 2)
    }
    assert {lane for at_ms, lane in shown if at_ms <= cut_ms} == set(range(LANES))
    assert {lane for at_ms, lane in shown if at_ms > cut_ms} == {2, 3}
