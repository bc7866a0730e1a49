"""pandas is no dependency: these are the names that PySpark's signatures mention."""
