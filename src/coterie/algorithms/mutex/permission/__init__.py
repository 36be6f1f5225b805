"""Mutual exclusion by permission: of a coordinator, or of all others."""
