"""`vivace automation`: what the leader does about moves that nobody asks for."""

from __future__ import annotations

from typing import Annotated

from orchestrator import api
from orchestrator.cli.arguments import Argument, Option
from orchestrator.cli.invocation import ClusterOption, FormOption, OutputForm, connected, show
from orchestrator.cli.render.automation import automation_view

ANY = "any"


def command(
    mode: Annotated[
        api.AutomationMode | None,
        Argument(
            help="off: it does nothing; propose: it plans, and people apply; apply: it plans and "
            "applies. Without: as before."
        ),
    ] = None,
    moves_an_hour: Annotated[
        int | None, Option("--moves-an-hour", min=1, help="Most moves within an hour.")
    ] = None,
    bytes_an_hour: Annotated[
        str | None,
        Option("--bytes-an-hour", help="Most bytes of state that move, such as 2GB; or any."),
    ] = None,
    quiet: Annotated[
        list[str] | None,
        Option(
            "--quiet",
            help="Hours of each day, UTC, in which nothing is planned or moved, such as "
            "22:00-06:00; may be repeated.",
        ),
    ] = None,
    no_quiet: Annotated[bool, Option("--no-quiet", help="There are no quiet hours.")] = False,
    pause: Annotated[
        bool, Option("--pause", help="Plan and move nothing that nobody asks for.")
    ] = False,
    lasts: Annotated[
        str | None, Option("--for", help="How long --pause lasts, such as 2h; else until --resume.")
    ] = None,
    resume: Annotated[bool, Option("--resume", help="End a pause.")] = False,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Show or change what the leader does about moves that nobody asks for.

    [bold]Example:[/] vivace automation apply --moves-an-hour 5 --quiet 22:00-06:00
    """
    if quiet and no_quiet:
        problem, remedy = "is there beside --quiet", "Give one of them."
        raise api.InvalidInput("command line", "--no-quiet", None, problem, remedy)
    if (for_ms := api.lasting("--for", lasts)) is not None and not pause:
        problem, remedy = "is there without --pause", "Give both."
        raise api.InvalidInput("command line", "--for", lasts, problem, remedy)
    any_bytes = bytes_an_hour == ANY
    most = None if any_bytes else api.size("--bytes-an-hour", bytes_an_hour)
    hours = () if no_quiet else quiet or None
    changes = (mode, moves_an_hour, bytes_an_hour, hours) != (None, None, None, None)
    if pause + resume + changes > 1:
        problem, remedy = "is there beside other changes", "Make one after the other."
        raise api.InvalidInput(
            "command line", "--pause" if pause else "--resume", None, problem, remedy
        )
    with connected(cluster) as client:
        if pause:
            found = client.pause_automation(None if for_ms is None else for_ms / 1e3)
        elif resume:
            found = client.resume_automation()
        elif not changes:
            found = client.automation()
        else:
            found = client.set_automation(
                mode, moves_an_hour=moves_an_hour, bytes_an_hour=most, any_bytes=any_bytes,
                quiet=hours,
            )  # fmt: skip
    show(found, form, lambda: automation_view(found))
