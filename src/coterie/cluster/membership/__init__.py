"""The configuration of a cluster: its file, its voters, and how programs learn it from nodes."""
