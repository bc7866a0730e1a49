"""Tokens of the HTTP API."""

from __future__ import annotations

from typing import Literal

from orchestrator.results.result import Result


class TokenDocument(Result, frozen=True, kw_only=True):
    """A token, without what was drawn; `created_us` and `expires_us` by the cluster's clock."""

    id: str
    role: Literal["read", "operate"]
    created_us: int
    expires_us: int | None
    note: str


class NewToken(TokenDocument, frozen=True, kw_only=True):
    """A token that was just drawn; nobody can show it again."""

    token: str


class TokensDocument(Result, frozen=True, kw_only=True):
    """The tokens there are."""

    tokens: tuple[TokenDocument, ...]
