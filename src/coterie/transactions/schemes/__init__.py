"""Six schemes of concurrency control, the contract they share, and their catalogue."""
