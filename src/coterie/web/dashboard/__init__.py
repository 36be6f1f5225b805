"""A live picture of a running cluster, server or lock directory: read-only."""
