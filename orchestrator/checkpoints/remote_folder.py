"""URIs of folders: which file system they lead to, and what its refusals mean.

`pyarrow.fs` reads a URI such as `s3://bucket/path?endpoint_override=host:port&scheme=http`. A URI
is shown to people, kept in the store and written to logs. So none may hold credentials: each
process finds those in its environment, as AWS' own clients do.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

from pyarrow import fs

S3 = "s3"
SECRET_OPTIONS = re.compile(r"secret|token|password|access_key|^sig$", re.IGNORECASE)
"""Options of a URI that hold credentials."""

NO_KEYS = "Leave them out: each process finds them in its environment, as AWS_ACCESS_KEY_ID."
"""The remedy for credentials in a URI."""

_request = re.compile(r" ?\(Request ID: [^)]*\)")

FAULTS = (
    (
        re.compile(r"NETWORK_CONNECTION|NETWORK_ERROR|REQUEST_TIMEOUT|SERVICE_UNAVAILABLE"),
        "cannot be reached now. If that stays, look at its server, and at the network between",
    ),
    (
        re.compile(r"NO_SUCH_BUCKET|Bucket '[^']*' not found"),
        "lies in a bucket that is not there. Make the bucket",
    ),
    (
        re.compile(
            r"ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|INVALID_SIGNATURE"
            r"|INVALID_CLIENT_TOKEN_ID|UNRECOGNIZED_CLIENT|MISSING_AUTHENTICATION_TOKEN"
            r"|Invalid(AccessKeyId|Token)|SignatureDoesNotMatch|ExpiredToken|HTTP status 403"
        ),
        "may not be used with the credentials of this process. Give all hosts and coordinators "
        "those of the bucket, by variables such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    ),
)
"""What in an error of `pyarrow.fs` tells which fault it is, and what to say of the folder."""


class SecretInUri(ValueError):
    """A URI holds credentials.

    Attributes
    ----------
    shown
        The URI without them.
    """

    def __init__(self, shown: str) -> None:
        super().__init__("holds credentials, which the store, logs and messages would show")
        self.shown = shown


def check_uri(uri: str) -> None:
    """Make sure that a URI leads to a file system. Asks no server.

    Raises
    ------
    SecretInUri
        It holds credentials.
    ValueError
        No file system is known for it; says why.
    """
    _check_secrets(uri)
    scheme, _, rest = uri.partition("://")
    path, _, options = rest.partition("?")
    if scheme == S3 and not path.partition("/")[0]:
        raise ValueError("it names no bucket")
    if scheme == S3 and "region" not in dict(parse_qsl(options, keep_blank_values=True)):
        # Else, the server of Amazon is asked for the region of the bucket.
        uri += ("&" if options else "" if uri.endswith("?") else "?") + "region=us-east-1"
    try:
        fs.FileSystem.from_uri(uri)
    except Exception as error:  # noqa: BLE001  Each file system has errors of its own.
        raise ValueError(str(error)) from None


def fault_of(error: OSError) -> str | None:
    """What an error of a remote file system says of the folder; None: nothing that is known."""
    return next((said for pattern, said in FAULTS if pattern.search(str(error))), None)


def steady(error: OSError) -> str:
    """An error's text without what differs each time: it is told as long as it lasts."""
    return _request.sub("", str(error))


def _check_secrets(uri: str) -> None:
    scheme, _, rest = uri.partition("://")
    path, question, options = rest.partition("?")
    before, at, after = path.rpartition("@")
    # A key may contain slashes, so what is before the `@` need not be an authority.
    if at and (":" in before or (scheme == S3 and "/" not in before)):
        raise SecretInUri(f"{scheme}://…@{after}{question}{_shown(options)}")
    if (shown := _shown(options)) != options:
        raise SecretInUri(f"{scheme}://{path}?{shown}")


def _shown(options: str) -> str:
    """Options of a URI, those that hold credentials without their values."""
    each = (option.partition("=") for option in options.split("&"))
    return "&".join(
        f"{name}=…" if SECRET_OPTIONS.search(name) else f"{name}{equals}{value}"
        for name, equals, value in each
    )
