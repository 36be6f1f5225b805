"""Mutual exclusion: at most one process inside, by permission, by quorum or by token."""
