"""Transactions: histories of what they did, and checkers of what that amounts to."""
