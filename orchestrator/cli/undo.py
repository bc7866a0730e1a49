"""`vivace undo`: take back what a plan of moves has done."""

from __future__ import annotations

from typing import Annotated

from orchestrator import api
from orchestrator.cli.arguments import Argument
from orchestrator.cli.invocation import (
    ClusterOption,
    DryRunOption,
    FormOption,
    OutputForm,
    WaitOption,
    connected,
    messages,
    output,
    progress,
    show,
)
from orchestrator.cli.plan_options import (
    AtATimeOption,
    KeepGoingOption,
    ThrottleOption,
    YesOption,
    agreed,
)
from orchestrator.cli.render.moves import exit_status, moves_view
from orchestrator.cli.render.plan_files import plan_file_view


def command(
    plan: Annotated[
        str | None, Argument(help="Name of the plan; without it the newest one.")
    ] = None,
    yes: YesOption = False,
    at_a_time: AtATimeOption = 1,
    keep_going: KeepGoingOption = False,
    throttle: ThrottleOption = None,
    dry_run: DryRunOption = False,
    wait: WaitOption = True,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> int:
    """Bring back what a plan of moves has moved. The way back is planned, shown, and asked for.

    `vivace moves` names the plans. What cannot go back is named with its reason.

    [bold]Example:[/] vivace undo rebalance-4711 --dry-run
    """
    rate_bytes_s = api.state_rate("--throttle", throttle)
    with connected(cluster) as client:
        with progress("Undo") as line:
            back = client.undo(plan, on_progress=line.tell)
        if dry_run:
            show(back, form, lambda: plan_file_view(back))
            return 0
        if form is OutputForm.TABLE:
            output().print(plan_file_view(back))
        if not back.moves or not (yes or agreed("Move them back?")):
            if form is not OutputForm.TABLE:
                show(back, form, lambda: plan_file_view(back))
            messages().print("Nothing was changed.")
            return 0
        with progress("Undo") as line:
            document = client.apply_plan(
                back, at_a_time=at_a_time, keep_going=keep_going, throttle_bytes_s=rate_bytes_s,
                wait=wait, on_progress=line.tell,
            )  # fmt: skip
    show(document, form, lambda: moves_view(document))
    return exit_status(document)
