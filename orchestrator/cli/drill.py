"""`vivace drill`: fail on purpose, and measure the consequences."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from orchestrator import api
from orchestrator.cli.arguments import Argument, Option
from orchestrator.cli.invocation import (
    EXIT_FAILED,
    ClusterOption,
    FormOption,
    OutputForm,
    check_page,
    check_picture,
    connected,
    progress,
    show,
)
from orchestrator.cli.render.drills import audit_view, report_view, series_view
from orchestrator.cli.render.tables import Table

HELP = """Failure drills: something fails on purpose, and is measured.

    [bold]Example:[/] vivace drill run kill-executor
    """

ForceOption = Annotated[bool, Option("--force", help="Run it although something would be lost.")]


def list_drills(cluster: ClusterOption = None, form: FormOption = OutputForm.TABLE) -> None:
    """List the drills.

    [bold]Example:[/] vivace drill list
    """
    table = Table(box=None, pad_edge=False)
    table.add_column("drill", style="bold")
    table.add_column("effect")
    with connected(cluster) as client:
        drills = client.drills()
    for each in drills:
        table.add_row(each.name, each.what)
    show(drills, form, lambda: table)


def run(
    name: Annotated[
        str | None, Argument(help="Which drill; `vivace drill list` names them.")
    ] = None,
    everything: Annotated[
        bool, Option("--all", help="Run all drills, one after the other.")
    ] = False,
    target: Annotated[
        str | None,
        Option(
            help="A fragment (its primary is hit) or a node; a stream, an output or a site; "
            "a link, SOURCE:TARGET. Default: a join, or the first site."
        ),
    ] = None,
    times: Annotated[
        int, Option(min=1, max=1000, help="How often, each after redundancy is restored.")
    ] = 1,
    force: ForceOption = False,
    simulate: Annotated[
        bool,
        Option(
            "--simulate", help="Only predict it: play it in the simulated world. Changes nothing."
        ),
    ] = False,
    compare: Annotated[
        bool, Option("--compare", help="Predict each drill, run it, and show both.")
    ] = False,
    picture: Annotated[
        Path | None,
        Option("--picture", help="Draw the timeline of the one drill into this file."),
    ] = None,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> int:
    """Run a drill on the running cluster. A drill that would lose something is refused.

    [bold]Example:[/] vivace drill run kill-executor --target alerts
    """
    _check_choice(name, everything, target)
    if simulate and (everything or times > 1 or compare):
        raise api.InvalidInput(
            "command line", "--simulate", None, "goes with one drill, once, and not with --compare",
            "Write: vivace drill run NAME --simulate",
        )  # fmt: skip
    if picture is not None:
        if everything or times > 1:
            raise api.InvalidInput(
                "command line", "--picture", str(picture), "shows one drill, once",
                "Name one drill, without --times.",
            )  # fmt: skip
        check_picture("--picture", picture)
    with connected(cluster) as client, progress("Drill") as line:
        if name is not None and times == 1:
            reports: list[api.DrillReport] = []
            if simulate or compare:
                reports.append(client.predict(name, target, line.tell))
            if not simulate:
                predicted_ms = reports[0].recovery_ms if reports else None
                found = client.drill(
                    name, target, force=force, predicted_ms=predicted_ms, on_progress=line.tell
                )
                reports.append(found)
            show(reports if compare else reports[0], form, lambda: report_view(*reports))
            _draw(reports[-1], picture)
            failed = bool(reports[-1].failures)
        else:
            runs = client.drill_series(
                *([] if name is None else [name]),
                target=target, times=times, force=force, compare=compare, on_progress=line.tell,
            )  # fmt: skip
            show(runs, form, lambda: series_view(runs))
            failed = not all(each.passed or each.inapplicable for each in runs)
    return EXIT_FAILED if failed else 0


def _check_choice(name: str | None, everything: bool, target: str | None) -> None:
    """Refuse what is neither one drill nor all of them."""
    if name is None and not everything:
        raise api.InvalidInput(
            "command line", "NAME", None, "is missing",
            "Write the name of a drill, which `vivace drill list` shows, or --all.",
        )  # fmt: skip
    if name is not None and everything:
        raise api.InvalidInput(
            "command line", "NAME", name, "is given, and --all as well", "Leave one of them out."
        )
    if everything and target is not None:
        raise api.InvalidInput(
            "command line", "--target", target, "is given, and --all as well",
            "Leave it out, or name one drill: with --all each drill chooses what it hits.",
        )  # fmt: skip


def _draw(report: api.DrillReport, picture: Path | None) -> None:
    if picture is not None:
        # matplotlib takes longer to import than most commands take.
        from orchestrator.cli.render.timeline import draw_timeline

        draw_timeline(report, picture)


def report(
    html: Annotated[
        Path | None,
        Option("--html", help="Write all of it into this file: one page, with pictures."),
    ] = None,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Tell what was drilled when, with which result, and what never was or cannot be.

    [bold]Example:[/] vivace drill report --html drills.html
    """
    if html is not None:
        check_page("--html", html)
    with connected(cluster) as client:
        audit = client.drill_audit()
    show(audit, form, lambda: audit_view(audit))
    if html is not None:
        # It draws pictures; see `_draw`.
        from orchestrator.cli.render.drill_page import drill_page

        with progress("Report") as line:
            html.write_text(drill_page(audit, line.tell), encoding="utf-8")


VERBS = {"list": list_drills, "run": run, "report": report}
