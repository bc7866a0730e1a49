"""`vivace down`: end a cluster."""

from __future__ import annotations

from rich.text import Text

from orchestrator import api
from orchestrator.cli.invocation import ClusterOption, FormOption, OutputForm, progress, show


def command(cluster: ClusterOption = None, form: FormOption = OutputForm.TABLE) -> None:
    """End a cluster, and wait until all of its processes are gone.

    Its logs and archives go, too, unless `vivace up --data` named a folder for them.

    [bold]Example:[/] vivace down --cluster aircraft
    """
    with progress("Ending the cluster") as line:
        document = api.down(cluster, line.tell)

    def view() -> Text:
        name, ended = document.cluster, document.ended
        text = Text.assemble("Cluster ", (name, "bold"), f" has ended; {ended} processes gone.")
        if killed := len(document.killed):
            text.append(f" {killed} had to be killed; logs are left in {document.logs}.", "yellow")
        return text

    show(document, form, view)
