"""Deadlock detection by messages: the detectors of the literature, as processes."""
