"""`vivace bulk`: coordinates and placements of many nodes and queries, as jobs of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from rich.console import Group, RenderableType
from rich.text import Text

from orchestrator import api
from orchestrator.cli.arguments import Argument, Option
from orchestrator.cli.invocation import FormOption, OutputForm, progress, show
from orchestrator.cli.render.tables import Table

HELP = """Coordinates and placements of many nodes and queries, from tables, as jobs of Spark.

    No cluster is needed. docs/bulk-planning.md lists the columns of the tables.

    [bold]Example:[/] vivace bulk place --nodes nodes --queries queries.parquet --out plan
    """

SAMPLE = 100
"""Queries that are compared with the sequential planner unless said otherwise."""

OutOption = Annotated[Path, Option("--out", help="Folder to write; it must not exist.")]
OverwriteOption = Annotated[
    bool, Option("--overwrite", help="Replace the folder, if `vivace bulk` has written it.")
]
MasterOption = Annotated[
    str, Option("--master", help="Spark's master URL. Default: all cores of this machine.")
]
ExecutorsOption = Annotated[
    int,
    Option("--executors", min=1, help="Executors of one core each, unless the master is local."),
]
MemoryOption = Annotated[
    int, Option("--memory", min=512, help="Java heap of the driver and of each executor, MB.")
]
ConfOption = Annotated[
    list[str] | None,
    Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated."),
]


def coordinates(
    latencies: Annotated[
        Path, Argument(help="Samples: node, peer, rtt_ms. A file or folder of Parquet or CSV.")
    ],
    out: OutOption,
    overwrite: OverwriteOption = False,
    dimensions: Annotated[
        int, Option("--dimensions", min=1, help="Dimensions of the coordinates.")
    ] = 4,
    seed: Annotated[int, Option("--seed", min=0, help="Of all random draws.")] = 0,
    master: MasterOption = api.LOCAL_SPARK,
    executors: ExecutorsOption = 2,
    memory: MemoryOption = 1536,
    conf: ConfOption = None,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Find the coordinates of nodes from latency samples. The result is a table of nodes.

    [bold]Example:[/] vivace bulk coordinates latencies.parquet --out nodes
    """
    with progress("Coordinates", shown=form is OutputForm.TABLE) as line:
        found = api.bulk_coordinates(
            latencies,
            out,
            overwrite=overwrite,
            dimensions=dimensions,
            seed=seed,
            spark=_spark(master, executors, memory, conf or []),
            on_progress=line.tell,
        )
    show(found, form, lambda: _coordinates(found))


def place(
    nodes: Annotated[
        Path, Option("--nodes", help="Nodes: node, x0, x1, … A file or folder of Parquet or CSV.")
    ],
    queries: Annotated[
        Path, Option("--queries", help="Queries, one a row. A file or folder of Parquet.")
    ],
    out: OutOption,
    overwrite: OverwriteOption = False,
    round_size: Annotated[
        int,
        Option("--round-size", min=1, help="Queries that are placed at the same time."),
    ] = 100,
    check: Annotated[
        bool, Option("--check", help="Compare a sample of them with the sequential planner.")
    ] = False,
    sample: Annotated[
        int | None,
        Option("--sample", min=1, help=f"Queries that --check compares. Default: {SAMPLE}."),
    ] = None,
    seed: Annotated[int, Option("--seed", min=0, help="Of the sample.")] = 0,
    master: MasterOption = api.LOCAL_SPARK,
    executors: ExecutorsOption = 2,
    memory: MemoryOption = 1536,
    conf: ConfOption = None,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Place queries on nodes, a round of them at a time.

    [bold]Example:[/] vivace bulk place --nodes nodes --queries queries.parquet --out plan --check
    """
    if sample is not None and not check:
        raise api.InvalidInput(
            "command line", "--sample", sample, "has no effect without --check", "Add --check."
        )
    with progress("Placement", shown=form is OutputForm.TABLE) as line:
        found = api.bulk_place(
            nodes,
            queries,
            out,
            overwrite=overwrite,
            round_size=round_size,
            sample=(sample or SAMPLE) if check else 0,
            seed=seed,
            spark=_spark(master, executors, memory, conf or []),
            on_progress=line.tell,
        )
    show(found, form, lambda: _placement(found))


def _spark(master: str, executors: int, memory: int, conf: Sequence[str]) -> api.SparkChoice:
    settings: dict[str, str] = {}
    for each in conf:
        key, equals, value = each.partition("=")
        if not (key and equals):
            raise api.InvalidInput(
                "command line", "--conf", each, "is no setting", "Write KEY=VALUE."
            )
        settings[key] = value
    return api.SparkChoice(master=master, executors=executors, memory_mb=memory, settings=settings)


def _coordinates(found: api.BulkEmbedding) -> RenderableType:
    table = _facts(
        ("nodes", f"{found.nodes:,}"),
        ("samples", f"{found.samples:,}, {found.rejected:,} of them left out"),
        ("error", _error(found)),
        ("took", _took(found)),
    )
    return Group(table, f"Coordinates are in {found.out}.")


def _error(found: api.BulkEmbedding) -> str:
    if found.median_relative_error is None or found.p90_relative_error is None:
        return "not known: no sample was held out"
    return (
        f"{found.median_relative_error:.1%} in the median, {found.p90_relative_error:.1%} at the "
        f"90th percentile, on {found.held_out:,} samples held out"
    )


def _placement(found: api.BulkPlacement) -> RenderableType:
    facts = [
        ("nodes", f"{found.nodes:,}, at most {found.most_replicas:,} replicas on one"),
        ("queries", f"{found.queries:,}, {found.refused:,} of them refused"),
        ("rounds", f"{found.rounds:,}, {found.placings / found.queries:.2f} placings a query"),
        ("usage", f"{found.network_usage_bytes:,.0f} bytes"),
        ("took", f"{_took(found)}, {1e3 * found.seconds / found.queries:.1f} ms a query"),
    ]
    if (check := found.check) is not None:
        otherwise = len(check.refused_otherwise)
        facts.append(
            (
                "check",
                f"{check.difference:+.2%} cost beside the sequential planner, on "
                f"{check.queries:,} queries; {otherwise:,} refused otherwise",
            )
        )
    return Group(_facts(*facts), f"The plan is in {found.out}.")


def _took(found: api.BulkEmbedding | api.BulkPlacement) -> str:
    return (
        f"{found.seconds:.1f} s, {found.driver_peak_mb:,.0f} MB in the driver, "
        f"{found.executor_peak_mb:,.0f} MB in an executor"
    )


def _facts(*facts: tuple[str, str]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for name, told in facts:
        table.add_row(Text(name, style="bold"), Text(told))
    return table


VERBS = {"coordinates": coordinates, "place": place}
