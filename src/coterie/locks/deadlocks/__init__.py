"""Deadlocks among the programs that use a lock service: which owner waits for which, asked twice."""
