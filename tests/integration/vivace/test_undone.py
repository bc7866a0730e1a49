"""`vivace undo` on a cluster in memory, as it is typed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.printed_verbs import known_cluster, printed

pytestmark = pytest.mark.slow


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    with known_cluster(tmp_path / "home"):
        yield tmp_path


def test_that_nothing_goes_back_is_a_document_too(work: Path) -> None:
    assert printed("move alerts primary zurich", work).status == 0
    assert printed("undo --yes", work).status == 0
    name = json.loads(printed("moves", work, "--json").out)["plans"][-1]["undo_of"]
    again = printed(f"undo --yes {name}", work, "--json")
    assert again.status == 0
    document = json.loads(again.out)
    assert (document["undo_of"], document["moves"]) == (name, [])


@pytest.mark.parametrize(
    ("words", "field"), [("cordon a/b", "node"), ("explain ../alerts", "fragment")]
)
def test_what_can_be_no_name_is_refused_as_one(work: Path, words: str, field: str) -> None:
    found = printed(words, work)
    assert found.status == 2
    assert f"error: {field}: '{words.split()[1]}' is the name of nothing. Names" in found.err
