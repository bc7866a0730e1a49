"""A host: the process that runs copies of fragments on a node, or brings streams in and out."""
