"""`coterie lock`: hold a lock while a command runs."""
