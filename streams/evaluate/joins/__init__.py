"""Joins by equal keys: of two windows, and of tuples with a relation that grows."""
