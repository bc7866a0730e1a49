"""Failures on purpose, and the measurement of their consequences."""
