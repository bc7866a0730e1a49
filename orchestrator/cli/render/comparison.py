"""Rows of outputs beside the rows that they should have."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from orchestrator import api
from orchestrator.cli.render.figures import event_time


def comparison(found: api.OutputVerdict, equal: str, theirs: str) -> Text:
    """A line of an output that is equal; else what differs.

    Parameters
    ----------
    equal
        What is said of rows that are.
    theirs
        What the rows are that were compared: `of 12 …`.
    """
    if found.equal:
        late = f"; {found.late:,} more were late, and dropped" if found.late else ""
        told = f"{found.output}: {found.archived:,} rows, {equal}{late}\n"
        return Text.assemble(("✓ ", "green"), told)
    text = Text.assemble(
        ("✗ ", "red"),
        f"{found.output}: of {found.recomputed:,} rows {found.missing:,} are missing, and of "
        f"{found.archived:,} {theirs} {found.unexpected:,} should not be there\n",
    )
    if found.late != found.late_recomputed:
        told = (
            f"{found.late:,} rows are said to be dropped as late, where {found.late_recomputed:,}"
        )
        text.append(f"  {told} should be\n", "red")
    for sign, rows in (("missing", found.first_missing), ("unexpected", found.first_unexpected)):
        for row in rows:
            values = ", ".join(f"{k} {v}" for k, v in row.items() if k != "_ts")
            text.append(f"  {sign:<10}  {event_time(int(row['_ts']))}  {values}\n", "red")
    return text


def evaluated_again(not_in_sql: Mapping[str, api.EvaluatedAgain]) -> Text:
    """What was not computed in SQL, and how it was evaluated instead."""
    text = Text()
    for name, one in not_in_sql.items():
        how = f"in parts by {', '.join(one.by)}" if one.by else f"in one piece ({one.whole})"
        text.append(f"! {name} was evaluated again {how}, not in SQL: {one.why}\n", "yellow")
    return text
