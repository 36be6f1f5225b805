"""Pages of elections."""
