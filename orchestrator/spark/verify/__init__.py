"""Verification: outputs are computed again in Spark and compared."""
