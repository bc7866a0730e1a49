"""Words that are read without typer mean what typer says they mean."""

from __future__ import annotations

from functools import wraps
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.exceptions import TyperException

from orchestrator.cli import application, arguments
from orchestrator.cli.verbs import GROUPS, VERBS, Command, group_of, verb_of

commands: dict[tuple[str, ...], Command] = {(name,): verb_of(name) for name in VERBS}
commands |= {(g, name): verb for g in GROUPS for name, verb in group_of(g).VERBS.items()}

VALUES = ("3", "0", "-1", "x.yaml", "1.5", "csv", "primary", "", "-", "²", "a=b")


def words_of(verb: Command) -> st.SearchStrategy[list[str]]:
    names = [
        part
        for each in arguments.parameters(verb)
        if not isinstance(each.shown, arguments.Argument)
        for name in each.names
        for part in name.split("/")
    ]
    joined = [f"{name}={value}" for name in names for value in ("3", "")]
    return st.lists(st.sampled_from([*names, *joined, *VALUES, "--", "--no"]), max_size=6)


@pytest.mark.parametrize("name", commands, ids=" ".join)
@settings(max_examples=40)
@given(data=st.data())
def test_what_is_read_is_what_typer_reads(name: tuple[str, ...], data: st.DataObject) -> None:
    words = data.draw(words_of(commands[name]))
    read = arguments.read(commands[name], words)
    if read is None:
        return
    found: list[dict[str, Any]] = []
    group = application.typer.Typer()
    group.callback()(application.options)
    group.command("verb")(application.declared(_kept(commands[name], found)))
    try:
        group(["verb", *words], standalone_mode=False)
    except TyperException as error:
        raise AssertionError(f"typer refuses {words}: {error.format_message()}") from None
    defaults = {each.name: each.default for each in arguments.parameters(commands[name])}
    assert found == [{**defaults, **read}]


def _kept(verb: Command, found: list[dict[str, Any]]) -> Command:
    """A verb with the same parameters that only keeps what it is given."""

    @wraps(verb)
    def kept(**taken: Any) -> None:
        found.append(taken)

    return kept
