"""YAML documents, read field by field, with errors that name file, line, field and value."""
