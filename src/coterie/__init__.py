"""Coordination between processes that share no memory."""
