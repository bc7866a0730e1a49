"""The certificate of the rig's API, made by openssl for the time of a test."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificate:
    """Its files; it is its own authority."""

    file: Path
    key: Path

    @staticmethod
    def make(folder: Path, address: str) -> Certificate:
        """Make one for an address, and for the API's name in a cluster."""
        made = Certificate(folder / "ca.crt", folder / "ca.key")
        names = f"subjectAltName=IP:{address},DNS:kubernetes.default.svc,DNS:kubernetes"
        subprocess.run(
            [
                "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-nodes", "-days", "2", "-subj", "/CN=rig", "-addext", names,
                "-out", str(made.file), "-keyout", str(made.key),
            ],
            check=True,
            capture_output=True,
        )  # fmt: skip
        return made
