"""Who may ask: tokens, and what each permits."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from orchestrator.api.tokens import digest
from orchestrator.operations.operation import AccessRole
from orchestrator.records import TokenRecord
from orchestrator.web.failures import Forbidden, Unauthorized

START = "start"
"""The id of the token that the process was started with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Whose token a request has, and where it comes from."""

    token: str
    role: AccessRole
    address: str

    def __str__(self) -> str:
        return f"{self.token}@{self.address}"

    def check(self, role: AccessRole) -> None:
        """Refuse what the token does not permit.

        Raises
        ------
        Forbidden
            It does not.
        """
        if role is AccessRole.OPERATE and self.role is not AccessRole.OPERATE:
            raise Forbidden(f"token {self.token} permits only to read")

    def check_may_run(self, what: str) -> None:
        """Refuse what would run with all rights of the process, unless it is its own token.

        Raises
        ------
        Forbidden
            It is another one.
        """
        if self.token != START:
            raise Forbidden(
                f"{what} would run with all rights of the process `web`: "
                f"only the token of its `tokenFile` permits that, and this is token {self.token}"
            )


class Access:
    """Knows tokens by their digests.

    Parameters
    ----------
    own
        The token that the process was started with, which may operate; None: there is none.
    now_us
        The cluster's clock.
    """

    def __init__(self, own: str | None, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self.renew(own)

    def renew(self, own: str | None) -> None:
        """Take another token in place of the process's own."""
        self._own = None if own is None else digest(own)

    def author(self, authorization: str, address: str, known: Mapping[str, TokenRecord]) -> Author:
        """Whose request it is, by its header `Authorization`.

        All digests are compared, each in constant time.

        Raises
        ------
        Unauthorized
            It has no token, or none that is known, or one that has expired.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthorized("the request has no token: send `Authorization: Bearer TOKEN`")
        given = digest(token.strip())
        if self._own is not None and hmac.compare_digest(given, self._own):
            return Author(token=START, role=AccessRole.OPERATE, address=address)
        found = [name for name, r in known.items() if hmac.compare_digest(given, r.sha256)]
        if not found:
            raise Unauthorized("the token is unknown, or was revoked")
        record = known[found[0]]
        if record.expires_us is not None and record.expires_us <= self._now_us():
            raise Unauthorized(f"token {found[0]} has expired")
        return Author(token=found[0], role=AccessRole(record.role), address=address)
