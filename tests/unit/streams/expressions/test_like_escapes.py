r"""docs/query-language.md: of LIKE's pattern, `\` takes the next character as it is."""

import pytest

from tests.unit.streams.running import run


@pytest.mark.parametrize(
    ("text", "pattern", "matches"),
    [
        # Held: patterns that are no mere beginning, end or part of a text.
        ("a_b", r"a\_b", True),
        ("abc", r"\ab_", True),
        # Patterns that Arrow takes for a beginning, an end or a part of the text.
        ("abc", r"\a%", True),
        ("cba", r"%\a", True),
        ("bab", r"%\a%", True),
        ("\\abc", r"\\a%", True),
        ("C:\\temp\\x", r"C:\\temp%", True),
        ("C:\\\\temp\\x", r"C:\\temp%", False),
        ("\\abc", r"\a%", False),
    ],
)
def test_a_backslash_takes_the_next_character_as_it_is(
    text: str, pattern: str, matches: bool
) -> None:
    statement = f"RSTREAM(SELECT k LIKE '{pattern}' AS y FROM s [NOW])"
    assert run(statement, [(1, text, 1, 0.5, True)]) == [(1, matches)]
