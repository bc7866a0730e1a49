"""Operations that are computed on a copy of the store, in a process of their own.

They take long, and would hold up whoever else asks this process. So a child gets the parameters and
a copy of what decisions rest on, yields the processors to hosts and leader, and ends with this
process, however that ends. It has neither the store nor the cluster's secret.

This file is also the child's program (`python -m orchestrator.api.apart`). The copy comes through
its standard input, and progress and result go back through it, a line of JSON each.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from contextlib import closing
from typing import Any, TypeVar

import msgspec

from orchestrator.api.aiming import cluster_pid
from orchestrator.api.connection import Cluster
from orchestrator.api.predicting import predict
from orchestrator.api.whatif import what_if
from orchestrator.deploy.context import ClusterContext
from orchestrator.embedded.linked_child import linked_child, yield_processors
from orchestrator.errors import Unreachable, error_report, reported
from orchestrator.operations import table
from orchestrator.operations.operation import Operation
from orchestrator.operations.parameters import Parameters, PredictParameters, WhatIfParameters
from orchestrator.progress import Progress
from orchestrator.simulation.world.memory_store import MemoryServer
from orchestrator.store.copied import StoreCopy, copy_of

P = TypeVar("P", bound=Parameters)
R = TypeVar("R")

PROGRAM = (sys.executable, "-m", "orchestrator.api.apart")

SILENT_S = 600.0
"""A child that tells nothing for so long is given up."""


NO_RESULT = msgspec.Raw(b"")


class ApartJob(msgspec.Struct, frozen=True, kw_only=True):
    """What a child is to compute: an operation by its name, and the cluster that it is about."""

    operation: str
    parameters: msgspec.Raw
    cluster: str
    cluster_pid: int
    by: str
    copy: StoreCopy


class ApartNews(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a child tells: how far it is, or its result, or why there is none."""

    progress: tuple[str, str] | None = None
    result: msgspec.Raw = NO_RESULT
    error: dict[str, Any] | None = None


def carry_apart(
    operation: Operation[P, R], cluster: Cluster, parameters: P, on_progress: Progress
) -> R:
    """Carry out an operation in a child; raises what the operation raises."""
    job = ApartJob(
        operation=operation.name,
        parameters=msgspec.Raw(msgspec.json.encode(parameters)),
        cluster=cluster.name,
        cluster_pid=cluster_pid(cluster),
        by=cluster.by,
        copy=copy_of(cluster.store),
    )
    process, link = linked_child(PROGRAM)
    try:
        with closing(link), link.makefile("rb") as lines:
            link.settimeout(SILENT_S)
            link.sendall(msgspec.json.encode(job) + b"\n")
            for line in lines:
                news = msgspec.json.decode(line, type=ApartNews)
                if news.progress is not None:
                    on_progress(*news.progress)
                elif news.error is not None:
                    raise reported(news.error)
                elif news.result != NO_RESULT:
                    return msgspec.json.decode(news.result, type=operation.result)
    except OSError as error:
        raise _ended(operation.name, str(error)) from error
    finally:
        process.kill()
    raise _ended(operation.name, "it has ended")


def _ended(operation: str, why: str) -> Unreachable:
    problem = f"gave no result: {why}"
    return Unreachable(f"The process for {operation}", "the API", problem, "Try again.")


def compute(job: ApartJob, on_progress: Progress) -> object:
    """What the child finds."""
    server = MemoryServer()
    server.restore(job.copy)
    reach = ClusterContext(cluster=job.cluster, pid=job.cluster_pid, started_s=0.0, folder="")
    cluster = Cluster(reach, server.connect(), job.by)
    if job.operation == table.PREDICT.name:
        drill = msgspec.json.decode(job.parameters, type=PredictParameters)
        return predict(cluster, drill.drill, drill.target, on_progress)
    return what_if(cluster, msgspec.json.decode(job.parameters, type=WhatIfParameters), on_progress)


def main() -> None:
    """Compute the one job that comes."""
    yield_processors()
    # What the leader on paper warns of is part of the result.
    logging.disable(logging.WARNING)
    with socket.socket(fileno=os.dup(0)) as link, link.makefile("rwb") as lines:

        def tell(news: ApartNews) -> None:
            lines.write(msgspec.json.encode(news, enc_hook=repr) + b"\n")
            lines.flush()

        def on_progress(step: str, detail: str) -> None:
            tell(ApartNews(progress=(step, detail)))

        try:
            job = msgspec.json.decode(lines.readline(), type=ApartJob)
            result = msgspec.Raw(msgspec.json.encode(compute(job, on_progress)))
            tell(ApartNews(result=result))
        except Exception as error:  # noqa: BLE001  It is told to whoever waits.
            tell(ApartNews(error=error_report(error).document["error"]))


if __name__ == "__main__":
    main()
