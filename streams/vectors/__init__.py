"""Columns, rows and chunks of tuples, and how they are saved."""
