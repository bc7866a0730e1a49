"""Errors of the protocol layer."""


class InvariantViolation(AssertionError):
    """A bug: something that the protocol rules out has happened."""
