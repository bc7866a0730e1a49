"""Evaluation of loops by the compiled core."""
