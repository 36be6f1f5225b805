"""Long runs and searches for the pages: in virtual time, exhaustive, or recorded from a cluster."""
