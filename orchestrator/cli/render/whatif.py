"""What would be, as tables: places, promises, loads; and what each loss would do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from orchestrator import api
from orchestrator.cli.render.figures import against, count, lasting, ms
from orchestrator.cli.render.loads import table
from orchestrator.cli.render.tables import Table


def whatif_view(document: api.WhatIfDocument) -> RenderableType:
    """All that would be otherwise, and what was assumed."""
    assumed = "; ".join(document.assumed) or "nothing: the cluster as it is"
    parts: list[RenderableType] = [Text.assemble(("Assumed: ", "bold"), assumed)]
    if document.fragments:
        parts.append(_fragments(document.fragments))
    if document.queries:
        parts.append(_queries(document.queries))
    if document.loads:
        parts.append(_loads(document.loads))
    if document.losses:
        parts.append(_losses(document.losses))
        parts += [Text(f"  {each}", style="yellow") for each in _remarks(document.losses)]
    parts += [f"[bold red]Refused:[/] {escape(each.why)}" for each in document.refused]
    parts += [
        f"[bold red]{escape(each.key)} stays unprotected:[/] {escape(each.why)}"
        for each in document.unprotected
    ]
    parts += [f"[bold red]Broken:[/] {escape(each)}" for each in document.breaks]
    parts += [f"[yellow]The leader would say:[/] {escape(each)}" for each in document.problems]
    if document.played is not None:
        parts += [_played(document.played), *_played_remarks(document.played)]
    return Group(*parts, "", "Nothing was changed.")


def _fragments(fragments: Sequence[api.FragmentOutlook]) -> Table:
    made = table(
        "\nPlaces", ("fragment", "primary", "secondary"), ("recovery / bound", "unprotected")
    )
    for each in fragments:
        made.add_row(
            f"[dim]{each.query}.[/]{each.fragment}",
            _way(each.primary, (primary for primary, _ in each.alternatives)),
            _way(each.secondary, (secondary for _, secondary in each.alternatives)),
            against(each.recovery_ms[1], each.bound_ms),
            _unprotected(each.unprotected_s),
        )
    return made


def _way(nodes: tuple[str | None, str | None], others: Iterable[str | None]) -> str:
    before, after = (each or "none" for each in nodes)
    others = sorted({each or "none" for each in others} - {after})
    told = " or ".join([f"[bold]{after}[/]", *others])
    return before if before == after and not others else f"{before} → {told}"


def _unprotected(seconds: float | None) -> Text:
    if seconds is None:
        return Text("until a node comes", style="bold red")
    return Text("–" if seconds == 0 else f"about {lasting(seconds * 1000)}")


def _queries(queries: Sequence[api.QueryOutlook]) -> Table:
    made = table(
        "\nQueries", ("query",), ("latency", "latency / deadline", "slack", "recovery / bound")
    )
    for each in queries:
        if each.after is None:
            made.add_row(each.query, *("–",) * 4)
            continue
        before_ms = None if each.before is None else each.before.latency_ms
        made.add_row(
            each.query,
            f"{ms(before_ms)} →",
            against(each.after.latency_ms, each.after.deadline_ms),
            ms(each.slack_ms),
            against(each.after.recovery_ms, each.after.bound_ms),
        )
    return made


def _loads(loads: Sequence[api.LoadOutlook]) -> Table:
    made = table("\nLoad", ("node or machine",), ("cores planned", "limit"))
    for each in loads:
        found = each.after or each.before
        assert found is not None
        cores = (
            "–" if p is None else f"{p.predicted_cores:.2f}" for p in (each.before, each.after)
        )
        over = each.after is not None and (
            each.after.predicted_cores + each.after.services_cores > each.after.limit_cores
        )
        made.add_row(
            each.name,
            Text(" → ".join(cores), style="bold red" if over else ""),
            f"{found.limit_cores:.2f}",
        )
    return made


def _losses(losses: Sequence[api.LossOutlook]) -> Table:
    made = table("\nIf it is lost", ("what", "bounds are kept by"), ("unprotected",))
    made.add_column("cannot be healed")
    for each in losses:
        mark, style = ("✓", "green") if each.harmless else ("✗", "bold red")
        made.add_row(
            Text.assemble((mark, style), f" {each.kind} {each.name}"),
            "not known" if each.unknown else each.kept_by,
            "–" if each.unknown else _unprotected(each.unprotected_s),
            ", ".join(each.unhealed) or "–",
        )
    return made


def _remarks(losses: Sequence[api.LossOutlook]) -> Iterator[str]:
    """What a row of the table has no room for."""
    for each in losses:
        what = f"{each.kind} {each.name}"
        if each.unknown:
            yield f"{what}: {each.unknown}"
        for why in dict.fromkeys(each.unhealed.values()):
            yield f"{what}: {why}"
        if each.streams:
            yield f"{what}: {', '.join(each.streams)} would not enter"
        if each.outputs:
            yield f"{what}: nobody would take out {', '.join(each.outputs)}"
        for promise in each.breaks:
            yield f"{what}: breaks {promise}"


def _played(played: api.PlayedDocument) -> Table:
    title = f"\nPlayed for {lasting(played.lasted_s * 1000)}"
    made = table(
        title,
        ("output",),
        ("tuples", "late results", "longest silence", "recovered", "lost, repeated"),
    )
    for each in played.outputs:
        made.add_row(
            each.output,
            count(each.tuples),
            f"{count(each.late)} of {count(each.timestamps)} after {each.deadline_ms:g} ms",
            ms(each.silent_ms),
            ms(each.recovered_ms),
            f"{each.lost}, {each.repeated}",
        )
    return made


def _played_remarks(played: api.PlayedDocument) -> Iterator[RenderableType]:
    if played.healed_s is not None:
        yield f"Everything was protected again after {played.healed_s:.1f} s."
    if played.synthetic:
        names = escape(", ".join(played.synthetic))
        yield f"[yellow]Synthetic input:[/] values of {names} were drawn by their types."
