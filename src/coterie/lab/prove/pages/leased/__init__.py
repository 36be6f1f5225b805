"""Pages of locks with leases: the quorum lock, and the lease that others count."""
