"""Scheduling on a node: admission, order, cost and lateness of its work."""
