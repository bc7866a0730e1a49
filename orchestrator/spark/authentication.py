"""How Spark's processes prove to each other that they know a secret (Spark's security guide)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

from orchestrator.errors import InvalidInput

STANDALONE = "spark://"
"""Beginning of the URL of a master of Spark's standalone cluster."""

SECRET_FILE_SETTING = "spark.authenticate.secret.file"
"""Names the file with the secret."""

AUTHENTICATED: Mapping[str, str] = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
}
"""Settings with which they prove it, and encrypt what they exchange."""

GUARDED_PAGES: Mapping[str, str] = {
    "spark.ui.killEnabled": "false",
    "spark.master.ui.decommission.allow.mode": "DENY",
}
"""Settings without which a page of a master could end an application or a worker."""


def encoded_secret(file: Path) -> str:
    """The content of a file with a secret, as Spark's processes take it.

    Raises
    ------
    InvalidInput
        It cannot be read.
    """
    try:
        return base64.b64encode(file.read_bytes()).decode()
    except OSError as error:
        problem, remedy = f"cannot be read ({error.strerror})", "Put Spark's secret there."
        raise InvalidInput(
            "sparkSettings", SECRET_FILE_SETTING, str(file), problem, remedy
        ) from None
