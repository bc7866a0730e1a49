"""Merging operators into chains, whoever asks for it."""

from __future__ import annotations

from collections.abc import Sequence

from streams.scheduling.chains import merge_chains


def any_consumer(operator: str, consumers: Sequence[str]) -> Sequence[str]:
    return consumers


def only_consumer(operator: str, consumers: Sequence[str]) -> Sequence[str]:
    return consumers if len(consumers) == 1 else []


def test_operators_that_only_follow_each_other_are_one_chain() -> None:
    inputs = {"a": ["x"], "b": ["a"], "c": ["b"]}
    assert merge_chains(inputs, any_consumer) == [("a", "b", "c")]


def test_operator_that_takes_something_else_in_begins_a_chain() -> None:
    inputs = {
        "a": ["x"],
        "b": ["y"],
        "join": ["a", "b"],
        "after": ["join"],
        "mixed": ["after", "z"],
    }
    assert merge_chains(inputs, any_consumer) == [
        ("a",),
        ("b",),
        ("join", "after"),
        ("mixed",),
    ]


def test_reading_one_stream_twice_is_taking_in_one_stream() -> None:
    assert merge_chains({"a": ["x"], "b": ["a", "a"]}, any_consumer) == [("a", "b")]


def test_rule_decides_between_consumers_and_the_first_that_can_follow_does() -> None:
    inputs = {"fork": ["x"], "left": ["fork"], "right": ["fork"], "join": ["fork", "y"]}
    assert merge_chains(inputs, only_consumer) == [("fork",), ("left",), ("right",), ("join",)]
    assert merge_chains(inputs, any_consumer)[0] == ("fork", "left")
    assert merge_chains(inputs, lambda _, found: sorted(found, reverse=True))[0] == (
        "fork",
        "right",
    )


def test_rule_sees_the_consumers_by_name() -> None:
    seen: list[tuple[str, ...]] = []

    def note(operator: str, consumers: Sequence[str]) -> Sequence[str]:
        seen.append((operator, *consumers))
        return []

    merge_chains({"c": ["a"], "b": ["a"], "a": ["x"]}, note)
    assert seen == [("c",), ("b",), ("a", "b", "c")]


def test_chains_come_in_the_order_of_their_first_operators() -> None:
    inputs = {"z": ["x"], "b": ["a"], "a": ["y"]}
    assert merge_chains(inputs, any_consumer) == [("z",), ("a", "b")]


def test_cycle_is_cut_before_the_operator_named_first() -> None:
    inputs = {"b": ["a"], "c": ["b"], "a": ["c"], "alone": ["x"]}
    assert merge_chains(inputs, any_consumer) == [("alone",), ("b", "c", "a")]
