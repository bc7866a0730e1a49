"""What an input lets in is text, numbers and NULL; whatever else JSON can carry is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from orchestrator.edges.sources.formats import formats
from orchestrator.edges.sources.formats.formats import Format, RowForm, Unreadable
from tests.property.streams import hostile
from tests.property.streams.evaluate.test_engine_matches_oracle import columns

BODIES = 300

surrogates = ["\ud800", "a\udfffb", "\udc00\ud800", "\ud800\ud800\udc00"]


def is_text(value: Any) -> bool:
    return not isinstance(value, str) or value == value.encode(errors="ignore").decode()


@pytest.mark.parametrize("escaped", [True, False])
def test_hostile_rows_of_json_enter_as_they_are_or_not_at_all(escaped: bool) -> None:
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    rng = np.random.default_rng(seed)
    entered = 0
    for _ in range(BODIES):
        rows = [dict(zip(columns, row, strict=True)) for _, row in hostile.tuples(rng, 4, 0)]
        if rng.random() < 0.3:
            rows[-1]["k"] = hostile.any_of(rng, surrogates)
        texts = [json.dumps(row, ensure_ascii=escaped) for row in rows]
        body = "\n".join(texts).encode(errors="surrogatepass")
        told = f"seed {seed}: {texts}"
        try:
            batch = formats.parse(RowForm(columns=columns), Format.JSON, body)
        except Unreadable:
            assert not all(is_text(row["k"]) for row in rows), told
            continue
        batch.validate(full=True)
        entered += 1
        found = [{name: row[name] for name in columns} for row in batch.to_pylist()]
        assert list(map(repr, found)) == list(map(repr, rows)), told
        assert all(is_text(row["k"]) for row in rows), told
    assert 0 < entered < BODIES
