"""The classic algorithms between real processes: one node of them, and its engine."""
