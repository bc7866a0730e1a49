"""Typed expressions and the functions that they call, column by column."""
