"""A host: the process that runs replicas of fragments on a node, or sources and sinks on a site."""
