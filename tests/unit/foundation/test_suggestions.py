from __future__ import annotations

import pytest

from foundation.suggestions import closest, hint, nearest


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("high", ["hihg", "low"], "hihg"),
        ("WEST EUROP", ["UK South", "West Europe"], "West Europe"),
        ("x", ["altitude"], None),
        ("three", ["other"], None),
        ("uk1", ["uk2"], "uk2"),
        ("x", [], None),
        # Short names hold most of their letters in order, and mean something else.
        ("median", ["min", "max", "sum", "round"], None),
        ("mean", ["min", "name"], None),
        ("moment", ["count"], None),
        ("variance", ["name"], None),
        ("len", ["length"], "length"),
        ("flaot", ["float"], "float"),
        ("recieved", ["received"], "received"),
        ("deadlines", ["deadline"], "deadline"),
    ],
)
def test_closest_ignores_case(name: str, known: list[str], found: str | None) -> None:
    assert closest(name, known) == found


def test_known_names_are_listed_when_none_is_near() -> None:
    assert nearest("x", ["beta", "alpha", "beta"]) == "Known: alpha, beta."
    assert hint("x", ["beta", "alpha"]) == "; there is alpha, beta"
    many = [f"name-{i:02}" for i in range(20)]
    assert nearest("x", many).endswith("name-11, ….")


def test_nothing_known_is_said() -> None:
    assert nearest("x", []) == "There is none."
    assert hint("x", []) == ""
