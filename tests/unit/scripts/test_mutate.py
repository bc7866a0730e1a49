"""The list of breakages fits the code: each text occurs once in its file, and changes it."""

from __future__ import annotations

import pytest

from scripts.mutate import QUICK, ROOT, Mutation


@pytest.mark.parametrize("mutation", Mutation.load(), ids=str)
def test_a_breakage_fits_the_code(mutation: Mutation) -> None:
    assert mutation.fits, "change tests/mutations.yaml with the line that it names"
    assert mutation.by != mutation.text
    assert mutation.quick


def test_there_are_enough_breakages_and_their_tests_exist() -> None:
    assert len([m for m in Mutation.load() if m.harmless is None]) >= 60
    assert all((ROOT / path).exists() for paths in QUICK.values() for path in paths)
