"""Real processes with what a world does to them, as steps of their own: crashes, lost messages, time."""
