"""Rows as others write them (CSV, JSON lines, Arrow, Parquet) become tuples."""
