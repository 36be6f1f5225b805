"""Claims of one process to locks that have a lease, whatever grants the leases."""
