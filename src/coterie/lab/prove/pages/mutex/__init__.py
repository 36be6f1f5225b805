"""Pages of mutual exclusion."""
