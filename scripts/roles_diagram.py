"""Draws the roles of a replica as a Mermaid state diagram, in `docs/roles.md`.

The diagram comes from the table in `ha.roles`, so that the two cannot part ways:
`python -m scripts.roles_diagram` rewrites it in place, and a unit test fails until that is done.
"""

from __future__ import annotations

import re
from pathlib import Path

from ha.roles import EpochRule, ReplicaRole, transitions

PAGE = Path(__file__).resolve().parent.parent / "docs" / "roles.md"

_block = re.compile(r"(?<=```mermaid\n).*?(?=```)", re.DOTALL)


def diagram() -> str:
    """The diagram; one arrow for all events that lead from one role to another.

    An event after which the epoch is another one says so in brackets.
    """
    arrows: dict[tuple[str, str], list[str]] = {}
    for (role, event), (target, rule) in transitions.items():
        said = event.value if rule is EpochRule.KEEP else f"{event.value} ({rule.value})"
        arrows.setdefault((role.value, target.value), []).append(said)
    lines = ["stateDiagram-v2", f"    [*] --> {ReplicaRole.WARMING.value}"]
    lines += [
        f"    {source} --> {target}: {', '.join(events)}"
        for (source, target), events in arrows.items()
    ]
    return "\n".join(lines) + "\n"


def updated(page: str) -> str:
    """The page with the diagram as it should be.

    Raises
    ------
    ValueError
        If the page has no place for it, or several.
    """
    found = _block.findall(page)
    if len(found) != 1:
        raise ValueError(f"{len(found)} Mermaid blocks, expected one")
    return _block.sub(lambda _: diagram(), page)


def main() -> None:
    """Bring the page up to date."""
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
