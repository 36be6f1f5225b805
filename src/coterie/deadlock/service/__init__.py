"""Deadlocks among the programs that use a lock service: who waits for whom, asked twice."""
