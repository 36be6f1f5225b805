"""Mutual exclusion by a token: the process that has it may enter."""
