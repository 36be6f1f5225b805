"""Audits of another store: run transactions against it, record what they saw, and judge that."""
