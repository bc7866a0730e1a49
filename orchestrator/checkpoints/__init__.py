"""Checkpoints in files: their format, and the folder that keeps them."""
