"""Mutual exclusion by a token: whoever has it may enter."""
