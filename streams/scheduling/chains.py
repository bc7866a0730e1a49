"""Operators that follow each other are merged into chains.

A host calls the operators of a chain one after the other, so they never wait for each other
(deadline placement, §5.3). Who plans for that host must count a chain once too: the demand test of
the deadline program, and admission. All of them merge with `merge_chains` and differ only in the
rule that says which consumer may follow an operator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

Followers = Callable[[str, Sequence[str]], Iterable[str]]
"""The rule: (operator, its consumers by name) → consumers that may follow it, the preferred one
first."""


def merge_chains(
    inputs: Mapping[str, Collection[str]], followers: Followers
) -> list[tuple[str, ...]]:
    """Merge operators into chains.

    An operator is followed by the first consumer allowed by the rule that takes in nothing else.

    Parameters
    ----------
    inputs
        Operator → the operators and streams it takes input from; each operator gives one stream
        under its own name.
    followers
        Which consumers may follow an operator.

    Returns
    -------
    list of tuple
        Every operator in exactly one chain; chains in the order in which `inputs` names their
        first operators. A cycle that nothing enters is cut before the operator that `inputs`
        names first, and comes after all others.

    Examples
    --------
    >>> inputs = {"filter": ["sensor"], "map": ["filter"], "join": ["map", "radar"]}
    >>> merge_chains(inputs, lambda operator, consumers: consumers)
    [('filter', 'map'), ('join',)]
    """
    consumers: dict[str, list[str]] = {name: [] for name in inputs}
    for name in sorted(inputs):
        for producer in inputs.keys() & set(inputs[name]):
            consumers[producer].append(name)
    following: dict[str, str] = {}
    for name in inputs:
        for consumer in followers(name, consumers[name]):
            if len(set(inputs[consumer])) == 1:
                following[name] = consumer
                break
    followed = set(following.values())
    chains: list[tuple[str, ...]] = []
    seen: set[str] = set()
    # An operator follows at most one other, its only input, and is followed by at most one: the
    # merged operators are paths, or cycles that nothing enters. Paths first.
    for first in (*(name for name in inputs if name not in followed), *inputs):
        chain: list[str] = []
        at: str | None = first
        while at is not None and at not in seen:
            seen.add(at)
            chain.append(at)
            at = following.get(at)
        if chain:
            chains.append(tuple(chain))
    return chains
