"""The `file:` engine beside other file locks, and under kill -9."""
