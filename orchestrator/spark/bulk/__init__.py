"""Coordinates and placement of a million nodes, as jobs of Spark."""
