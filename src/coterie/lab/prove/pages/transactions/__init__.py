"""Pages of transactions: commit over several sites, and concurrency control."""
