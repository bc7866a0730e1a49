"""What a host's own environment says, which wins over what its pool has told it.

Spark decides where an executor runs. Only there is it known which machine that is, by which address
others reach it, which port is open, and where the cluster's secret lies.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path

import msgspec

from orchestrator.errors import InvalidInput
from orchestrator.folders import read_secret
from orchestrator.records import HostSpec

MACHINE_VARIABLE = "VIVACE_MACHINE"
"""The machine, as failure domains name it; else the host name. In a container that is the
container's, and each would be a machine of its own."""

ZONE_VARIABLE = "VIVACE_ZONE"
"""The zone of the machine; else what the manifest says of the application."""

ADVERTISE_VARIABLE = "VIVACE_ADVERTISE"

PORT_VARIABLE = "VIVACE_PORT"
"""The port on which links come in; else any."""

SECRET_FILE_VARIABLE = "VIVACE_SECRET_FILE"

HIGHEST_PORT = 2**16 - 1


def own_machine(environment: Mapping[str, str] = os.environ) -> str:
    """The machine that this process runs on, as failure domains name it."""
    return environment.get(MACHINE_VARIABLE) or socket.gethostname()


def in_its_environment(spec: HostSpec, environment: Mapping[str, str] = os.environ) -> HostSpec:
    """The start parameters of a host that has come to run here.

    Raises
    ------
    InvalidInput
        The port is none, or the file of a secret that the parameters do not hold cannot be read.
    """
    labels = msgspec.structs.replace(
        spec.labels,
        machine=own_machine(environment),
        zone=environment.get(ZONE_VARIABLE) or spec.labels.zone,
    )
    file = environment.get(SECRET_FILE_VARIABLE, "")
    return msgspec.structs.replace(
        spec,
        labels=labels,
        advertise=environment.get(ADVERTISE_VARIABLE) or spec.advertise,
        port=_port(environment.get(PORT_VARIABLE, "")),
        secret=spec.secret or read_secret("environment", SECRET_FILE_VARIABLE, Path(file)),
    )


def _port(text: str) -> int:
    if not text:
        return 0
    if text.isascii() and text.isdecimal() and 0 < int(text[:6]) <= HIGHEST_PORT:
        return int(text)
    remedy = f"Write a number from 1 to {HIGHEST_PORT}."
    raise InvalidInput("environment", PORT_VARIABLE, text, "is no port", remedy)
