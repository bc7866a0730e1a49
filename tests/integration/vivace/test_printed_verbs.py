"""Golden output of every verb, and its documents against their schemas.

`pytest tests/integration/vivace/test_printed_verbs.py --refresh-golden` writes the golden files
anew: review the difference as any other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.cli.verbs import GROUPS, VERBS
from tests.json_schema import wrong
from tests.printed_verbs import CASES, Printed, golden, known_cluster, printed, schema_of, verb_of

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).with_name("golden")

ALL_VERBS = sorted({*VERBS} | {f"{group}-{name}" for group in GROUPS for name in GROUPS[group]})

ONCE = (
    "cordon paris", "uncordon paris", "token create", "delete proximity", "support-bundle",
    "apply WORK/plan.json --at-a-time", "undo --yes", "render",
)  # fmt: skip
"""Cases that are printed in one form only, because they change something."""

UNPRINTED = {
    "config-add": "changes files only",
    "config-remove": "changes files only",
}
"""Verbs that have no golden file, and why."""


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def cases(work: Path) -> Iterator[list[tuple[Printed, Printed | None]]]:
    """All cases, in two forms."""
    with known_cluster(work / "home"):
        found: list[tuple[Printed, Printed | None]] = []
        for words in CASES:
            once = words.startswith(ONCE) or " -o " in words
            as_json = None if once else printed(words, work, "--json")
            found.append((printed(words, work), as_json))
        yield found


def test_every_verb_is_printed() -> None:
    told = {verb_of(words) for words in CASES}
    assert told.isdisjoint(UNPRINTED)
    assert sorted(told | {*UNPRINTED}) == ALL_VERBS


@pytest.mark.parametrize("verb", [verb for verb in ALL_VERBS if verb not in UNPRINTED])
def test_a_verb_prints_what_its_golden_file_has(
    verb: str, cases: list[tuple[Printed, object]], work: Path, pytestconfig: pytest.Config
) -> None:
    shown = golden([each for each, _ in cases if verb_of(each.words) == verb], work)
    file = GOLDEN / f"{verb}.txt"
    if pytestconfig.getoption("--refresh-golden"):
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8")


def test_documents_are_as_their_schemas_say(
    cases: list[tuple[Printed, Printed | None]],
) -> None:
    judged: set[str] = set()
    for _, each in cases:
        name = "" if each is None else schema_of(each.words)
        if each is None or not name:
            continue
        document = json.loads(each.out)
        told = "error" if isinstance(document, dict) and "error" in document else name
        judged.add(told)
        assert not wrong(document, told), each.words
    assert judged >= {"status", "history", "plan", "describe", "topology", "drills", "error"}
    assert judged >= {"nodes", "queries", "streams", "fragments", "outputs"}


def test_tables_have_no_escape_codes_where_there_is_no_terminal(
    cases: list[tuple[Printed, object]],
) -> None:
    assert not [each.words for each, _ in cases if "\x1b" in each.out + each.err]
