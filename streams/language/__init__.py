"""The query language: text in, syntax tree out."""

from streams.language.errors import QueryError
from streams.language.parser import parse

__all__ = ["QueryError", "parse"]
