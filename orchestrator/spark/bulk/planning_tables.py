"""The tables of bulk planning: latency samples, nodes and queries in; coordinates and plans out.

`docs/bulk-planning.md` lists their columns. All of a table is checked before anything is computed
or written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from foundation.bounds import MAX_RTT_MS
from foundation.suggestions import nearest
from orchestrator.errors import InvalidInput
from orchestrator.spark.bulk.latency_blocks import COLUMNS
from orchestrator.spark.bulk.tables import CSV, TableRows, columns_of, files_of, read_table
from placement.bulk import BulkPlan
from placement.errors import GraphError
from placement.graph import Link, Operator, QueryGraph
from placement.network import NetworkView, Node
from placement.records import Request

NO_LIMIT_MS = 1e9
"""Deadline of a query that states none."""

MOST_SUGGESTED = 10_000
"""Known names up to which the nearest one is looked for: it takes half a second."""

NODE_FIGURES = ("error_ms", "cpu_ms", "operators")
"""Optional columns of nodes with numbers ≥ 0, which are 0 if they are missing."""


def check_latencies(path: Path) -> int:
    """See that all latency samples can be used; number of samples.

    Round trips of 0, or longer than any link takes, and nodes that measured themselves are no
    errors: the job counts them and leaves them out.

    Raises
    ------
    InvalidInput
        A column is missing, a node has no name, or a round trip is negative or no number.
    """
    count, kind, says_something = 0, None, False
    for rows in read_table(path, COLUMNS):
        for end in ("node", "peer"):
            named = rows.names(end).type
            is_text = pa.types.is_string(named)
            if kind is None:
                kind = is_text
            elif kind is not is_text:
                problem = "holds texts, but others hold whole numbers, or the other way round"
                raise InvalidInput(
                    str(rows.file), end, None, problem, "Name all nodes in the same way."
                )
        rtt_ms, apart = (
            rows.numbers("rtt_ms", 0.0),
            pc.not_equal(*map(rows.names, ("node", "peer"))),
        )
        possible = (rtt_ms > 0) & (rtt_ms <= MAX_RTT_MS) & apart.to_numpy(zero_copy_only=False)
        says_something = says_something or bool(possible.any())
        count += len(rows)
    if not says_something:
        problem = "has no sample of two nodes that says something" if count else "has no rows"
        raise InvalidInput(str(path), "", None, problem, "Give the samples of some nodes.")
    return count


def latency_files(path: Path, aside: Path) -> list[str]:
    """Files of Parquet with the latency samples that `check_latencies` has seen.

    Parameters
    ----------
    aside
        Folder for what is not Parquet yet; made if it is needed.
    """
    found: list[str] = []
    for number, file in enumerate(files_of(path)):
        if file.suffix != CSV:
            found.append(str(file))
            continue
        aside.mkdir(parents=True, exist_ok=True)
        copy = aside / f"{number}.parquet"
        fields = [("node", pa.string()), ("peer", pa.string()), ("rtt_ms", pa.float64())]
        writer = parquet.ParquetWriter(copy, pa.schema(fields))
        for rows in read_table(file, COLUMNS):
            columns = [rows.names("node"), rows.names("peer"), pa.array(rows.numbers("rtt_ms"))]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, list(COLUMNS)))
        writer.close()
        found.append(str(copy))
    return found


def read_nodes(path: Path) -> NetworkView:
    """The network of a table of nodes.

    Raises
    ------
    InvalidInput
        A column is missing, a value cannot be used, or a node occurs twice.
    """
    axes = _axes(path)
    seen: set[str] = set()
    nodes: list[Node] = []
    optional = (*NODE_FIGURES, "capacity_cores", "domain", "hosts_operators")
    for rows in read_table(path, ["node", *axes], optional):
        names = rows.texts("node")
        for at, name in enumerate(names):
            if name in seen:
                raise rows.refusal(at, "node", name, "occurs twice", "Leave one of them out.")
            seen.add(name)
        nodes += _nodes(rows, names, axes)
    if not nodes:
        raise InvalidInput(str(path), "", None, "has no rows", "Give some nodes.")
    view = NetworkView(nodes=tuple(nodes))
    if not view.hosts:
        problem, remedy = "is false for all nodes", "Let some of them host operators."
        raise InvalidInput(str(path), "hosts_operators", None, problem, remedy)
    return view


def _axes(path: Path) -> list[str]:
    """The columns x0, x1, …, of the first of the files."""
    file = files_of(path)[0]
    columns = columns_of(file)
    axes = [f"x{axis}" for axis in range(len(columns))]
    found = [name for name in axes if name in columns]
    if not found or found != axes[: len(found)]:
        missing = next(name for name in axes if name not in columns)
        problem = f"is missing among the columns {', '.join(columns)}"
        remedy = "Coordinates are in x0, x1, …, such as `vivace bulk coordinates` writes."
        raise InvalidInput(str(file), missing, None, problem, remedy)
    return found


def _nodes(rows: TableRows, names: Sequence[str], axes: Sequence[str]) -> Iterator[Node]:
    positions_ms = np.stack([rows.numbers(axis) for axis in axes], axis=1)
    figures = {name: rows.numbers(name, 0.0, default=0.0) for name in NODE_FIGURES}
    cores = rows.numbers("capacity_cores", 0.0, default=math.inf)
    for at in np.flatnonzero(cores == 0)[:1].tolist():
        remedy = "Write a number > 0, or nothing: then there is no limit."
        raise rows.refusal(at, "capacity_cores", 0.0, "is not > 0", remedy)
    domains = _values(rows, "domain", pa.string(), "", "is no text", "Write a name.")
    hosting = _values(
        rows, "hosts_operators", pa.bool_(), True, "is neither true nor false", "Write one of them."
    )
    for at, name in enumerate(names):
        yield Node(
            name=name,
            position_ms=positions_ms[at],
            error_ms=float(figures["error_ms"][at]),
            cpu_ms=float(figures["cpu_ms"][at]),
            capacity_cores=float(cores[at]),
            domain=domains[at],
            hosts_operators=hosting[at],
            operators=int(figures["operators"][at]),
        )


def _values(
    rows: TableRows, column: str, kind: pa.DataType, default: Any, problem: str, remedy: str
) -> list[Any]:
    """The values of an optional column."""
    if not rows.has(column):
        return [default] * len(rows)
    try:
        return rows.batch.column(column).cast(kind).fill_null(default).to_pylist()
    except pa.ArrowException:
        raise InvalidInput(str(rows.file), column, None, problem, remedy) from None


@dataclass(frozen=True, slots=True)
class _Graphs:
    """Makes graphs of the rows of a table of queries."""

    rows: TableRows
    view: NetworkView
    nodes: Path

    def request(self, at: int, name: str, limits_ms: Sequence[float]) -> Request:
        """The query of a row."""
        deadline_ms, bound_ms, detection_ms = limits_ms
        operators = self._parts(at, "operators")
        links = self._parts(at, "links")
        prefix = f"{name}."
        try:
            graph = QueryGraph(
                name=name,
                operators=tuple(self._operator(at, prefix, each) for each in operators),
                links=tuple(self._link(at, prefix, each) for each in links),
            )
        except GraphError as error:
            field = "links" if error.subject.startswith("link") else "operators"
            problem = _unprefixed(f"{error.subject}: {error.problem}", name)
            raise self.rows.refusal(
                at, f"query {name}: {field}", None, problem, "Correct it."
            ) from None
        return Request(graph, deadline_ms, bound_ms, detection_ms)

    def _parts(self, at: int, field: str) -> list[dict[str, Any]]:
        column = self.rows.batch.column(field)
        kind = column.type
        is_list = kind.num_fields == 1 and not isinstance(kind, pa.StructType)
        structs = is_list and isinstance(kind.field(0).type, pa.StructType)
        if not (structs and column[at].is_valid):
            raise self.rows.refusal(
                at, field, None, "is no list of structs", "docs/bulk-planning.md shows one."
            )
        return [each or {} for each in column[at].as_py()]

    def _operator(self, at: int, prefix: str, given: Mapping[str, Any]) -> Operator:
        name = self._text(at, "operators.operator", given.get("operator"))
        pinned, cores = given.get("node"), given.get("cores")
        return Operator(
            name=f"{prefix}{name}",
            cost_us=self._number(at, "operators.cost_us", given.get("cost_us"), 0.0),
            cores=None if cores is None else self._number(at, "operators.cores", cores, 0.0),
            pinned=None if pinned is None else self._node(at, "operators.node", pinned),
            allowed=tuple(
                self._node(at, "operators.allowed", node) for node in given.get("allowed") or ()
            ),
        )

    def _link(self, at: int, prefix: str, given: Mapping[str, Any]) -> Link:
        source, target = (
            self._text(at, f"links.{end}", given.get(end)) for end in ("source", "target")
        )
        return Link(
            source=f"{prefix}{source}",
            target=f"{prefix}{target}",
            rate_bytes_s=self._number(at, "links.rate_bytes_s", given.get("rate_bytes_s"), None),
            tuples_s=self._number(at, "links.tuples_s", given.get("tuples_s"), 0.0),
        )

    def _text(self, at: int, field: str, value: object) -> str:
        if value is None or value == "":
            raise self.rows.refusal(at, field, None, "is missing", "Each needs a name.")
        return str(value)

    def _number(self, at: int, field: str, value: object, default: float | None) -> float:
        if value is None and default is not None:
            return default
        if not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
            problem = "is missing" if value is None else "is not a number ≥ 0"
            raise self.rows.refusal(at, field, value, problem, "Write a number ≥ 0.")
        return float(value)

    def _node(self, at: int, field: str, node: object) -> str:
        name, known = str(node), self.view.by_name
        if name not in known:
            remedy = nearest(name, known) if len(known) <= MOST_SUGGESTED else "Check its name."
            raise self.rows.refusal(at, field, node, f"is no node of {self.nodes}", remedy)
        return name


def _unprefixed(text: str, query: str) -> str:
    """A text with the names of a query's operators as they were given."""
    return re.sub(rf"(?<![\w.]){re.escape(query)}\.(?=\w)", "", text)


def read_queries(path: Path, view: NetworkView, nodes: Path) -> list[Request]:
    """The queries of a table, in the order of its rows.

    Parameters
    ----------
    nodes
        Where the nodes of the view come from, for messages.

    Raises
    ------
    InvalidInput
        A column is missing, a value cannot be used, a node is unknown, or a query occurs twice.
    """
    seen: set[str] = set()
    requests: list[Request] = []
    needed = ["query", "recovery_bound_ms", "operators", "links"]
    for rows in read_table(path, needed, ["deadline_ms", "detection_ms"]):
        bounds_ms = rows.numbers("recovery_bound_ms", 0.0)
        deadlines_ms = rows.numbers("deadline_ms", 0.0, default=NO_LIMIT_MS)
        detections_ms = rows.numbers("detection_ms", 0.0, default=0.0)
        graphs = _Graphs(rows, view, nodes)
        for at, name in enumerate(rows.texts("query")):
            if name in seen:
                raise rows.refusal(at, "query", name, "occurs twice", "Give it another name.")
            seen.add(name)
            limits_ms = (deadlines_ms[at], bounds_ms[at], detections_ms[at])
            requests.append(graphs.request(at, name, tuple(map(float, limits_ms))))
    if not requests:
        raise InvalidInput(str(path), "", None, "has no rows", "Give some queries.")
    return requests


def write_plan(folder: Path, requests: Sequence[Request], found: BulkPlan) -> None:
    """Write a plan: `placements.parquet` and `queries.parquet`."""
    placements = [
        {
            "query": placed.query,
            "operator": placed.operator.removeprefix(f"{placed.query}."),
            "primary": placed.primary,
            "secondary": placed.secondary,
            "recovery_ms": placed.recovery_ms,
            "transfer_ms": placed.transfer_ms,
            "reprocess_ms": placed.reprocess_ms,
        }
        for placed in found.plan.placements
    ]
    figures = {each.query: each for each in found.plan.queries}
    queries: list[dict[str, object]] = []
    for request in requests:
        name = request.graph.name
        refusal = found.refused.get(name, "")
        row: dict[str, object] = {"query": name, "refusal": _unprefixed(refusal, name) or None}
        if (each := figures.get(name)) is not None:
            row |= {
                "latency_ms": each.latency_ms,
                "recovery_ms": each.recovery_ms,
                "network_usage_bytes": each.network_usage,
                "standby_usage_bytes": each.standby_usage,
            }
        queries.append(row)
    tables = {"placements": (placements, PLACEMENTS), "queries": (queries, QUERIES)}
    for name, (rows, schema) in tables.items():
        parquet.write_table(pa.Table.from_pylist(rows, schema), folder / f"{name}.parquet")


_texts = ("query", "operator", "primary", "secondary", "refusal")


def _schema(*names: str) -> pa.Schema:
    return pa.schema([(name, pa.string() if name in _texts else pa.float64()) for name in names])


PLACEMENTS = _schema(
    "query", "operator", "primary", "secondary", "recovery_ms", "transfer_ms", "reprocess_ms"
)
QUERIES = _schema(
    *("query", "refusal", "latency_ms", "recovery_ms"),
    *("network_usage_bytes", "standby_usage_bytes"),
)
