"""Connections between processes of a cluster: frames, the handshake, listeners and links."""
