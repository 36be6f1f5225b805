"""Leader election: agree on one process, the highest that lives."""
