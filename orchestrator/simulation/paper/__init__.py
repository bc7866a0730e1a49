"""Clusters on paper: the leader decides on a copy of the store, and no data flows."""
