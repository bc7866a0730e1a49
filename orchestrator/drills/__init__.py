"""Failures on purpose, and the measurement of what comes of them."""
