"""One run: its plan, its machines and processes, the faults that befall it, and what judges it."""
