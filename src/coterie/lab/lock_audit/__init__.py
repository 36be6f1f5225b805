"""Audits of locks: programs take a lock of any library, faults happen to them, and the record of it is judged."""
